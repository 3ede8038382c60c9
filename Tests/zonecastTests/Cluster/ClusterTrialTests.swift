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
/// Checked are the letters a to e and g to l of Reliability.md, "Invariants", and of f that a share which ended is answered
/// like one that never was, as far as clients can see them. Each round causes one fault. `Deploy/test --peers` causes each
/// kind once (`ZONECAST_TRIALS=short`); `Deploy/soak --cluster` causes as many as wanted and also judges times.
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

        /// Whether writes must go on within 15 s.
        var isFailover: Bool { self == .primaryKilled || self == .primarySuspended }
    }

    /// The number of rounds of a soak; `nil` for each kind once.
    private static let rounds = ProcessInfo.processInfo.environment["ZONECAST_TRIALS"].flatMap { Int($0) }
    private static let trials = (0..<(rounds ?? Trial.allCases.count)).map { Trial.allCases[$0 % Trial.allCases.count] }

    /// How many bytes a relay with a dozen clients may use.
    private static let mostMemory = 600 << 20

    @Test(.timeLimit(.minutes(60))) func acknowledgedWritesSurviveAndAreAnnounced() async throws {
        let folder = NSTemporaryDirectory() + "zct-" + UUID().uuidString.prefix(8).lowercased()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let disks = Self.trials.contains(.diskFull) ? TrialDisks(in: folder, servers: ["a", "b"]) : nil
        defer { disks?.remove() }
        // Two versions side by side, as during an upgrade.
        let other = ProcessInfo.processInfo.environment["ZONECAST_OTHER_PROGRAM"].map { URL(fileURLWithPath: $0) }
        var settings = LocalCluster.Settings(folder: folder) { node, store in
            ClusterProgram(
                executable: node == "node1" ? other ?? Command.program : Command.program,
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
        let cluster = LocalCluster(settings) { [self] in say($0) }
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
        let ledger = TrialLedger(judgesTimes: Self.rounds != nil)
        let folder = ClusterFolder(await cluster.folderPath)
        let names = await cluster.status.nodes.map(\.name)
        let listeners = names.map { name in
            TrialListener(name, ledger: ledger) {
                let address = folder.status?.nodes.first { $0.name == name }?.address
                return address.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
            }.start()
        }
        let (pair, share) = (TrialPair(port: port, ledger: ledger), TrialShare(port: port, ledger: ledger))
        let counter = try TrialCounter(port: port, ledger: ledger)
        let writers =
            (0..<6).map { TrialWriter($0, port: port, ledger: ledger).start() }
            + [pair.startWriting(), pair.startReading()] + (0..<3).map { _ in counter.start() }
        var follower = TrialFollower()
        for (round, trial) in Self.trials.enumerated() {
            let start = ContinuousClock.now
            try await waitForWrites(ledger)
            ledger.beginRound()
            try await cause(trial, on: cluster, round, ledger, disks)
            try await waitForWrites(ledger)
            let gap = ledger.longestGap
            try await cluster.waitUntilComplete()
            try await waitForNotices(ledger)
            let ports = await cluster.status.nodes.compactMap { $0.address?.split(separator: ":").last }
            try share.check(round, nodes: ports.compactMap { Int($0) })
            try check(&follower, port: port, ledger, "round \(round), \(trial.rawValue)")
            try await checkMemory(of: cluster, ledger)
            if Self.rounds != nil, trial.isFailover, gap > .seconds(15) {
                ledger.object("round \(round), \(trial.rawValue): no write for \(gap)")
            }
            say(
                "round \(round): \(trial.rawValue); \(ledger.confirmations) writes, longest time without one \(gap),",
                "slowest notice \(ledger.slowest), \(follower.refusals) tokens refused, took \(ContinuousClock.now - start)"
            )
            try #require(ledger.objections.isEmpty, "\(ledger.objections.joined(separator: "\n"))")
        }
        writers.forEach { $0.stop() }
        try await waitForNotices(ledger)
        listeners.forEach { $0.stop() }
        counter.check()
        try check(&follower, port: port, ledger, "at the end")
        try checkMonitoring(port: port)
        #expect(ledger.objections.isEmpty, "\(ledger.objections.joined(separator: "\n"))")
        #expect(ledger.seen > 0)
    }

    /// Prints a line at once, also into a file.
    private func say(_ words: String...) {
        FileHandle.standardOutput.write(Data((words.joined(separator: " ") + "\n").utf8))
    }

    /// The monitoring files for clusters use only metrics that a node exports, each with the label `node`.
    private func checkMonitoring(port: Int) throws {
        let shown = String(decoding: try HTTPConnection(port: port).send("GET", "/metrics").body, as: UTF8.self)
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Deploy/monitoring").standardizedFileURL.path
        for file in ["grafana.cluster.json", "alerts.cluster.yaml"] {
            let text = try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8)
            // A cluster on one database has no shards and no replicas.
            let absent: Set = ["zonecast_shard_up", "zonecast_replica_usable"]
            for metric in Set(text.matches(of: /zonecast_[a-z_]+/).map { String($0.output) }).subtracting(absent) {
                let isShown = shown.contains("\n\(metric){node=\"node")
                #expect(isShown, "\(file) names \(metric)")
            }
        }
    }

    /// Waits until `isTrue`; the limit of the whole test ends it.
    private func wait(until isTrue: () async throws -> Bool) async throws {
        while try await !isTrue() { try await Task.sleep(for: .milliseconds(50)) }
    }

    private func waitForWrites(_ ledger: TrialLedger, count: Int = 50) async throws {
        let goal = ledger.confirmations + count
        try await wait {
            ledger.checkNotices()
            return ledger.confirmations >= goal
        }
    }

    /// Waits until each listener knows all that is confirmed now.
    private func waitForNotices(_ ledger: TrialLedger) async throws {
        let goal = ledger.confirmations
        try await wait {
            ledger.checkNotices()
            return ledger.seenByAll >= goal
        }
    }

    private func checkMemory(of cluster: LocalCluster, _ ledger: TrialLedger) async throws {
        for node in await cluster.status.nodes {
            guard let process = node.process,
                let text = try? String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8),
                let pages = text.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
            else { continue }
            if pages * 4_096 > Self.mostMemory { ledger.object("l: \(node.name) uses \(pages * 4_096 >> 20) MB") }
        }
    }

    /// Causes a fault and, where it does not heal by itself, waits until it has shown and heals it.
    private func cause(
        _ trial: Trial,
        on cluster: LocalCluster,
        _ round: Int,
        _ ledger: TrialLedger,
        _ disks: TrialDisks?
    ) async throws {
        let before = await cluster.status
        let place = round % before.nodes.count
        let node = before.nodes[place].name
        switch trial {
        case .nodeKilled:
            try await cluster.cause(.nodeKilled(node))
            try await wait { await cluster.status.nodes[place].restarts > before.nodes[place].restarts }
        case .primaryKilled, .primarySuspended:
            try await cluster.cause(trial == .primaryKilled ? .primaryKilled : .primarySuspended)
            try await wait { await cluster.status.failovers > before.failovers }
        case .listenersEnded:
            let old = try await cluster.execute(
                "SELECT string_agg(backend::text, ',') FROM node WHERE backend IS NOT NULL"
            )
            try await cluster.cause(.listenersEnded)
            try await wait {
                try await cluster.execute("SELECT count(*) FROM node WHERE backend = ANY ('{\(old)}')") == "0"
            }
        case .nodeSuspended:
            try await cluster.cause(.nodeSuspended(node))
            try await wait { await !cluster.status.nodes[place].isReady }
            try await cluster.cause(.nodeResumed(node))
        case .nodeCut:
            try await cluster.cause(.nodeCut(node, true))
            // The others serve meanwhile.
            try await waitForWrites(ledger)
            try await cluster.cause(.nodeCut(node, false))
        case .standbyCut:
            try await cluster.cause(.standbyCut(true))
            try await wait {
                try await cluster.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
            }
            try await cluster.cause(.standbyCut(false))
        case .diskFull:
            guard let disks else { return say("full disk: not run, as no file system can be mounted here") }
            let refusals = ledger.refusals
            let primary = before.servers.first { $0.role == .primary }?.name ?? ""
            disks.fill(String(primary.suffix(1)))
            try await wait {
                // What a checkpoint frees is filled again.
                disks.fill(String(primary.suffix(1)))
                return ledger.refusals > refusals
            }
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
            let (found, followed) = (full.values[name] ?? 0, follower.values[name] ?? 0)
            guard entry.deletion == .none else {
                guard entry.deletion == .confirmed else { continue }
                if found != 0 { ledger.object("a, \(when): the deletion of \(name) was lost") }
                if followed != 0 { ledger.object("d, \(when): the feed does not have the deletion of \(name)") }
                continue
            }
            if found < entry.confirmed {
                if after[name]?.deletion != TrialLedger.Entry.Deletion.none { continue }
                ledger.object("a, \(when): \(name) lost \(entry.confirmed), has \(found)")
            }
            if followed < found { ledger.object("b, \(when): the feed has \(followed) of \(name), the zone \(found)") }
        }
        for (name, found) in full.values where name.hasPrefix("w") && found > after[name]?.sent ?? 0 {
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
