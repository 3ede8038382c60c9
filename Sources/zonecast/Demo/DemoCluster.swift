import Dispatch
import Foundation
import LocalCluster
import Synchronization

/// The demo's relays: several over two PostgreSQL servers, all on this machine.
final class DemoCluster: Sendable {
    private let cluster: LocalCluster
    private let journal: DemoJournal
    private let isStopped = Mutex(false)

    init(folder: String, nodes: Int, port: Int, journal: DemoJournal) {
        var settings = LocalCluster.Settings.ofThisProgram(folder: folder, isDev: true)
        (settings.nodes, settings.port, settings.hasStandby) = (nodes, port, true)
        self.journal = journal
        cluster = LocalCluster(settings) { journal.note("cluster", "log", $0) }
    }

    /// Starts everything; returns the address of the balancer.
    func start() async throws -> String {
        do {
            return try await cluster.start()
        } catch {
            throw CommandFailure(.failed, "The cluster cannot be started: \(error)")
        }
    }

    func stop() async {
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        if isFirst { await cluster.stop() }
    }

    /// Stops from code that cannot suspend, such as a signal's handler.
    func stopAndWait() {
        let end = DispatchSemaphore(value: 0)
        Task {
            await stop()
            end.signal()
        }
        _ = end.wait(timeout: .now() + 30)
    }

    var status: ClusterStatus {
        get async { await cluster.status }
    }

    /// Kills the node with the most connections, which is started again; returns its name.
    func killNode() async throws -> String {
        let ready = await cluster.status.nodes.filter(\.isReady)
        guard let node = ready.max(by: { $0.connections < $1.connections }) else {
            throw CommandFailure(.failed, "No node of the cluster is ready.")
        }
        try await cluster.cause(.nodeKilled(node.name))
        journal.note(
            "cluster",
            "kill -9",
            "\(node.name), with \(node.connections) connections; the clients continue on the others"
        )
        return node.name
    }

    func killPrimary() async throws {
        try await cluster.cause(.primaryKilled)
        journal.note("cluster", "kill -9", "all processes of the PostgreSQL primary; the clients continue to write")
    }

    func waitUntilComplete() async throws {
        do {
            try await cluster.waitUntilComplete()
        } catch {
            throw CommandFailure(.failed, "\(error)")
        }
    }
}

/// Scenes in which parts of a cluster die.
extension DemoTour {
    func killedNode() async throws -> String {
        guard let cluster = world.cluster else { return "not run: the demo did not start the relays" }
        let began = await cluster.status.nodes.reduce(0) { $0 + $1.restarts }
        let writes = try await write { _ = try await cluster.killNode() }
        try await world.waitUntilEqual()
        try await cluster.waitUntilComplete()
        let restarts = await cluster.status.nodes.reduce(0) { $0 + $1.restarts } - began
        guard restarts == 1 else { throw CommandFailure(.failed, "\(restarts) nodes were started again instead of 1.") }
        return "\(writes) writes on all nodes; the node runs again; 0 lost, 0 duplicated"
    }

    func killedPrimary() async throws -> String {
        guard let cluster = world.cluster else { return "not run: the demo did not start the relays" }
        let failovers = await cluster.status.failovers
        let start = Mutex(ContinuousClock.now)
        let writes = try await write {
            try await cluster.killPrimary()
            start.withLock { $0 = .now }
        }
        try await world.waitUntilEqual()
        let time = ContinuousClock.now - start.withLock { $0 }
        try await cluster.waitUntilComplete()
        guard await cluster.status.failovers == failovers + 1 else {
            throw CommandFailure(.failed, "The standby was not promoted once.")
        }
        return String(
            format:
                "%d writes; all stored %.1f s after the kill; the former primary is the standby; 0 lost, 0 duplicated",
            writes,
            time / .seconds(1)
        )
    }

    /// Writes on three clients at once, and calls `fault` in the middle; returns how many writes there were.
    private func write(_ fault: () async throws -> Void) async throws -> Int {
        let clients = world.clients.prefix(3)
        for number in 0..<20 {
            for client in clients { try world.add("Write \(number) by \(client.device)", on: client) }
            if number == 8 { try await fault() }
            try await Task.sleep(for: .milliseconds(15))
        }
        return 20 * clients.count
    }
}
