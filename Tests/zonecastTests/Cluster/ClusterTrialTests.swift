import ChildProcesses
import Foundation
import LocalCluster
import TestSupport
import Testing

/// Whether this machine has PostgreSQL and trials are asked for, as `Deploy/soak --cluster` does.
private let clusterTrialsArePossible =
    PostgresServer.isInstalled && ProcessInfo.processInfo.environment["ZONECAST_TRIALS"] != nil

/// Real relays over real PostgreSQL servers, whose parts fail while clients write and listen.
///
/// Checked are the letters a, b, c, e, h, i and k of Reliability.md, "Invariants", as far as clients can see them. Each round
/// causes one fault. Only `Deploy/soak --cluster` runs it.
@Suite(.ownThread, .serialized, .enabled(if: clusterTrialsArePossible, "needs PostgreSQL and ZONECAST_TRIALS"))
struct ClusterTrialTests {
    /// The faults of each round; a soak repeats all of them.
    private enum Trial: String, CaseIterable {
        case nodeKilled = "kill -9 of a node"
        case primaryKilled = "kill -9 of the primary"
        case nodeSuspended = "SIGSTOP of a node"
        case primarySuspended = "SIGSTOP of the primary"
        case nodeCut = "a node cut from the servers"
        case standbyCut = "the primary cut from its standby"
        case listenersEnded = "lost LISTEN"
        case diskFull = "full disk of the primary"

        /// How long the fault lasts before it is healed, where it is not healed by itself.
        var length: Duration {
            switch self {
            case .nodeSuspended, .nodeCut: .seconds(5)
            case .standbyCut, .diskFull: .seconds(4)
            default: .zero
            }
        }
    }

    private static let trials: [Trial] = {
        guard let rounds = ProcessInfo.processInfo.environment["ZONECAST_TRIALS"].flatMap({ Int($0) }) else {
            return [.nodeKilled, .primaryKilled, .listenersEnded]
        }
        return (0..<rounds).map { Trial.allCases[$0 % Trial.allCases.count] }
    }()

    /// What waits for others to be ready.
    private static let patience = 120

    @Test(.timeLimit(.minutes(60))) func acknowledgedWritesSurviveAndAreAnnounced() async throws {
        let folder = NSTemporaryDirectory() + "zct-" + UUID().uuidString.prefix(8).lowercased()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let disks = Self.trials.contains(.diskFull) ? TrialDisks(in: folder, servers: ["a", "b"]) : nil
        defer { disks?.remove() }
        var settings = LocalCluster.Settings(folder: folder) { node, store in
            ClusterProgram(
                executable: Command.program,
                arguments: [
                    "serve", "--dev", "--store", store.url, "--node", node, "--data", "\(folder)/\(node)", "--listen",
                    "127.0.0.1:0", "--stop-with-input",
                ],
                environment: Command.cleanEnvironment(adding: [
                    "ZONECAST_STORE_PASSWORD": store.password, "ZONECAST_LIMITS_KEEP_ALIVE": "600",
                ])
            )
        }
        (settings.hasStandby, settings.canCut) = (true, true)
        settings.serverSettings = ["shared_buffers=64MB", "max_wal_size=128MB"]
        let cluster = LocalCluster(settings) { print($0) }
        do {
            let address = try await cluster.start()
            let port = try #require(address.split(separator: ":").last.flatMap { Int($0) })
            try await run(on: cluster, port: port, disks)
        } catch {
            Issue.record(error)
        }
        await cluster.stop()
    }

    private func run(on cluster: LocalCluster, port: Int, _ disks: TrialDisks?) async throws {
        try TrialClient.prepare(port: port)
        let ledger = TrialLedger()
        let folder = ClusterFolder(await cluster.folderPath)
        let names = await cluster.status.nodes.map(\.name)
        let listeners = names.map { name in
            TrialListener(name, ledger: ledger) {
                let address = folder.status?.nodes.first { $0.name == name }?.address
                return address.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
            }
        }
        let writers = (0..<6).map { TrialWriter($0, port: port, ledger: ledger) }
        var follower = TrialFollower()
        for (round, trial) in Self.trials.enumerated() {
            let start = ContinuousClock.now
            try await waitForWrites(50, ledger)
            try await cause(trial, on: cluster, round, disks)
            let stop = ContinuousClock.now
            try await waitForWrites(50, ledger)
            let outage = ContinuousClock.now - stop
            try await cluster.waitUntilComplete()
            // Longer than a sweep, so that what it must find is due.
            for _ in 0..<(Self.trials.count < 4 ? 2 : 20) {
                try await Task.sleep(for: .seconds(1))
                ledger.checkNotices()
            }
            try check(&follower, port: port, ledger, "round \(round), \(trial.rawValue)")
            print(
                "round \(round): \(trial.rawValue); \(ledger.confirmations) writes, writes went on after \(outage),",
                "slowest notice \(ledger.slowest), \(follower.refusals) tokens refused, took \(ContinuousClock.now - start)"
            )
            try #require(ledger.objections.isEmpty, "\(ledger.objections.joined(separator: "\n"))")
        }
        writers.forEach { $0.stop() }
        // Each listener must come to know all.
        for _ in 0..<20 {
            try await Task.sleep(for: .seconds(1))
            ledger.checkNotices()
        }
        listeners.forEach { $0.stop() }
        try check(&follower, port: port, ledger, "at the end")
        try checkMonitoring(port: port)
        #expect(ledger.objections.isEmpty, "\(ledger.objections.joined(separator: "\n"))")
        #expect(ledger.seen > 0)
    }

    /// The monitoring files for clusters use only metrics that a node exports, each with the label `node`.
    private func checkMonitoring(port: Int) throws {
        let shown = String(decoding: try HTTPConnection(port: port).send("GET", "/metrics").body, as: UTF8.self)
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Deploy/monitoring").standardizedFileURL.path
        for file in ["grafana.cluster.json", "alerts.cluster.yaml"] {
            let text = try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8)
            for metric in Set(text.matches(of: /zonecast_[a-z_]+/).map { String($0.output) }) {
                let isShown = shown.contains("\n\(metric){node=\"node")
                #expect(isShown, "\(file) names \(metric)")
            }
        }
    }

    private func waitForWrites(_ count: Int, _ ledger: TrialLedger) async throws {
        let goal = ledger.confirmations + count
        for _ in 0..<Self.patience * 10 {
            if ledger.confirmations >= goal { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        Issue.record("\(count) writes were not confirmed within \(Self.patience) s")
        throw HTTPConnection.ConnectionLost()
    }

    private func cause(_ trial: Trial, on cluster: LocalCluster, _ round: Int, _ disks: TrialDisks?) async throws {
        let names = await cluster.status.nodes.map(\.name)
        let node = names[round % names.count]
        switch trial {
        case .nodeKilled: try await cluster.cause(.nodeKilled(node))
        case .primaryKilled: try await cluster.cause(.primaryKilled)
        case .primarySuspended: try await cluster.cause(.primarySuspended)
        case .listenersEnded: try await cluster.cause(.listenersEnded)
        case .nodeSuspended:
            try await cluster.cause(.nodeSuspended(node))
            try await Task.sleep(for: trial.length)
            try await cluster.cause(.nodeResumed(node))
        case .nodeCut:
            try await cluster.cause(.nodeCut(node, true))
            try await Task.sleep(for: trial.length)
            try await cluster.cause(.nodeCut(node, false))
        case .standbyCut:
            try await cluster.cause(.standbyCut(true))
            try await Task.sleep(for: trial.length)
            try await cluster.cause(.standbyCut(false))
        case .diskFull:
            guard let disks else { return print("full disk: not run, as no file system can be mounted here") }
            let primary = await cluster.status.servers.first { $0.role == .primary }?.name ?? ""
            disks.fill(String(primary.suffix(1)))
            try await Task.sleep(for: trial.length)
            disks.empty()
        }
    }

    /// Compares a follower of the feed with a full fetch, and that with what was confirmed.
    private func check(_ follower: inout TrialFollower, port: Int, _ ledger: TrialLedger, _ when: String) throws {
        let before = ledger.entries
        let connection = try HTTPConnection(port: port)
        var full = TrialFollower()
        try follower.catchUp(on: connection, pageSize: 7)
        try full.catchUp(on: connection, pageSize: 50)
        // Writes go on: catch up once more, so that the follower has all that the full fetch has.
        try follower.catchUp(on: connection, pageSize: 50)
        let after = ledger.entries
        for (name, entry) in before {
            let found = full.values[name] ?? 0
            if found < entry.confirmed { ledger.object("a, \(when): \(name) lost \(entry.confirmed), has \(found)") }
            let followed = follower.values[name] ?? 0
            if followed < found { ledger.object("b, \(when): the feed has \(followed) of \(name), the zone \(found)") }
        }
        for (name, found) in full.values where found > after[name]?.sent ?? 0 {
            ledger.object("i, \(when): \(name) holds \(found), which no writer sent")
        }
        if !follower.wentBack.isEmpty { ledger.object("c, \(when): the feed went back: \(follower.wentBack)") }
    }
}

/// Small file systems in memory for the servers' data, which can be filled.
private struct TrialDisks {
    private let folder: String
    private let servers: [String]

    /// Returns `nil` where no file system can be mounted.
    init?(in folder: String, servers: [String]) {
        self.folder = folder
        self.servers = servers
        for server in servers {
            let place = "\(folder)/server-\(server)"
            try? FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
            let mounted = try? Tool.run("mount", ["-t", "tmpfs", "-o", "size=500m", "tmpfs", place])
            guard mounted?.status == 0 else {
                remove()
                return nil
            }
        }
    }

    func fill(_ server: String) {
        _ = try? Tool.run("sh", ["-c", "cat /dev/zero > '\(folder)/server-\(server)/filler' 2> /dev/null || true"])
    }

    func empty() {
        for server in servers { try? FileManager.default.removeItem(atPath: "\(folder)/server-\(server)/filler") }
    }

    func remove() { for server in servers { _ = try? Tool.run("umount", ["\(folder)/server-\(server)"]) } }
}
