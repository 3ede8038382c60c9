import ChildProcesses
import Foundation
import LocalCluster
import Testing

/// A cluster of programs that stand in for relays, over real PostgreSQL servers.
@Suite(.enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)"), .serialized)
struct LocalClusterTests {
    /// A program that answers each request with its name, as the relay answers `GET /readyz`.
    private static let standIn = """
        import http.server, os, sys, threading
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(sys.argv[1].encode())
            def log_message(self, *arguments): pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(f"ready http://127.0.0.1:{server.server_port}", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        server.serve_forever()
        """

    /// A running cluster, its address and its folder.
    private struct Running: Sendable {
        let cluster: LocalCluster
        let address: String
        let folder: String

        func stop() async {
            await cluster.stop()
            #expect(ClusterFolder(folder).status == nil)
            try? FileManager.default.removeItem(atPath: folder)
        }
    }

    private func start(hasStandby: Bool, canCut: Bool = false) async throws -> Running {
        let folder = NSTemporaryDirectory() + "zcl-" + UUID().uuidString.prefix(8).lowercased()
        var settings = LocalCluster.Settings(folder: folder) { node, _ in
            ClusterProgram(
                executable: URL(fileURLWithPath: "/usr/bin/python3"),
                arguments: ["-c", Self.standIn, node],
                environment: [:]
            )
        }
        (settings.nodes, settings.hasStandby, settings.canCut) = (2, hasStandby, canCut)
        settings.serverSettings = ["fsync=off"]
        let cluster = LocalCluster(settings) { line in print(line) }
        return Running(cluster: cluster, address: try await cluster.start(), folder: folder)
    }

    /// Waits until the status is as wanted.
    private func wait(
        for cluster: LocalCluster,
        _ isAsWanted: @Sendable (ClusterStatus) -> Bool
    ) async throws {
        for _ in 0..<1_200 {
            if isAsWanted(await cluster.status) { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        Issue.record("not as wanted: \(await cluster.status)")
    }

    @Test("a node that is killed or stands still is started again")
    func nodes() async throws {
        let running = try await start(hasStandby: false)
        let cluster = running.cluster
        do {
            let status = await cluster.status
            #expect(status.isComplete)
            #expect(status.servers.map(\.role) == [.primary])
            try await cluster.cause(.nodeKilled("node1"))
            try await wait(for: cluster) { $0.nodes[0].restarts == 1 && $0.isComplete }
            try await cluster.cause(.nodeSuspended("node2"))
            try await wait(for: cluster) { !$0.nodes[1].isReady }
            try await wait(for: cluster) { $0.nodes[1].restarts == 1 && $0.isComplete && $0.failovers == 0 }
        } catch { Issue.record(error) }
        await running.stop()
    }

    @Test("a primary that is killed or stands still is replaced by the standby, which has every commit")
    func failover() async throws {
        let running = try await start(hasStandby: true, canCut: true)
        let cluster = running.cluster
        do {
            _ = try await cluster.execute("CREATE TABLE written (number int)")
            for (number, fault) in [LocalCluster.Fault.primaryKilled, .primarySuspended].enumerated() {
                _ = try await cluster.execute("INSERT INTO written VALUES (\(number))")
                try await cluster.cause(fault)
                try await wait(for: cluster) { $0.failovers == number + 1 }
                try await cluster.waitUntilComplete()
                let count = try await cluster.execute("SELECT count(*) FROM written")
                #expect(count == "\(number + 1)")
            }
        } catch { Issue.record(error) }
        await running.stop()
    }

    @Test("commits wait while the standby is cut off")
    func cutStandby() async throws {
        let running = try await start(hasStandby: true, canCut: true)
        let cluster = running.cluster
        do {
            _ = try await cluster.execute("CREATE TABLE written (number int)")
            try await cluster.waitUntilComplete()
            try await cluster.cause(.standbyCut(true))
            let insertion = Task { try await cluster.execute("INSERT INTO written VALUES (1)") }
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            for _ in 0..<1_200 {
                if try await cluster.execute(waiting) != "0" { break }
                try await Task.sleep(for: .milliseconds(50))
            }
            let count = try await cluster.execute(waiting)
            #expect(count == "1")
            let before = try await cluster.execute("SELECT count(*) FROM written")
            #expect(before == "0")
            try await cluster.cause(.standbyCut(false))
            _ = try await insertion.value
            let after = try await cluster.execute("SELECT count(*) FROM written")
            #expect(after == "1")
        } catch { Issue.record(error) }
        await running.stop()
    }

    @Test("a folder serves one cluster at a time, and says what runs")
    func oneCluster() async throws {
        let running = try await start(hasStandby: false)
        let status = ClusterFolder(running.folder).status
        #expect(status?.address == running.address)
        #expect(status?.nodes.count == 2)
        await running.stop()
    }
}
