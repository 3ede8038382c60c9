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

    private static func newFolder() -> String {
        NSTemporaryDirectory() + "zcl-" + UUID().uuidString.prefix(8).lowercased()
    }

    private func start(hasStandby: Bool, canCut: Bool = false, in known: String? = nil) async throws -> Running {
        let folder = known ?? Self.newFolder()
        let cluster = makeCluster(in: folder, hasStandby: hasStandby, canCut: canCut)
        return Running(cluster: cluster, address: try await cluster.start(), folder: folder)
    }

    private func makeCluster(
        in folder: String,
        hasStandby: Bool = false,
        canCut: Bool = false,
        port: Int = 0,
        program: (path: String, script: String) = ("/usr/bin/python3", standIn)
    ) -> LocalCluster {
        var settings = LocalCluster.Settings(folder: folder) { node, _ in
            ClusterProgram(
                executable: URL(fileURLWithPath: program.path),
                arguments: ["-c", program.script, node],
                environment: [:]
            )
        }
        (settings.nodes, settings.hasStandby, settings.canCut, settings.port) = (2, hasStandby, canCut, port)
        settings.serverSettings = ["fsync=off"]
        return LocalCluster(settings) { line in print(line) }
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

    @Test("a start after a failover continues with the promoted server, although the other one has no data")
    func startAfterFailover() async throws {
        var running = try await start(hasStandby: true)
        do {
            _ = try await running.cluster.execute("CREATE TABLE written (number int)")
            try await running.cluster.cause(.primaryKilled)
            try await wait(for: running.cluster) { $0.failovers == 1 }
            for hasStandby in [true, false] {
                try await running.cluster.waitUntilComplete()
                _ = try await running.cluster.execute("INSERT INTO written VALUES (1)")
                await running.cluster.stop()
                // What is left of a copy that was interrupted.
                try FileManager.default.removeItem(atPath: running.folder + "/server-a/data")
                running = try await start(hasStandby: hasStandby, in: running.folder)
                let primary = await running.cluster.status.servers.first { $0.role == .primary }?.name
                #expect(primary == "server_b")
            }
            let count = try await running.cluster.execute("SELECT count(*) FROM written")
            #expect(count == "2")
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
        let other = makeCluster(in: running.folder)
        await #expect(throws: LocalCluster.StartError.self) { try await other.start() }
        await other.stop()
        #expect(ClusterFolder(running.folder).status?.address == running.address)
        await running.stop()
    }

    @Test("a port that is in use and a folder that cannot be written are named") func unusable() async throws {
        let running = try await start(hasStandby: false)
        let port = try #require(running.address.split(separator: ":").last.flatMap { Int($0) })
        let folder = Self.newFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for (folder, words) in [(folder, "listens on 127.0.0.1:\(port)"), ("/dev/null/cluster", "/dev/null/cluster")] {
            let cluster = makeCluster(in: folder, port: port)
            let failure = await #expect(throws: LocalCluster.StartError.self) { try await cluster.start() }
            #expect(failure?.description.contains(words) == true)
        }
        await running.stop()
    }

    @Test("a start fails with the reason of a program that ends, and leaves nothing running") func failedStart() async {
        let folder = Self.newFolder()
        let cluster = makeCluster(in: folder, program: ("/bin/sh", "echo 'It is Monday.' >&2; exit 1"))
        let failure = await #expect(throws: LocalCluster.StartError.self) { try await cluster.start() }
        #expect(failure?.description.hasSuffix(" ended: It is Monday.") == true)
        // As a signal during the start does.
        await cluster.stop()
        #expect(!ClusterFolder(folder).isRunning)
        #expect(!FileManager.default.fileExists(atPath: folder + "/server-a/data/postmaster.pid"))
        try? FileManager.default.removeItem(atPath: folder)
    }
}
