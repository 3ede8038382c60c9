import ChildProcesses
import Dispatch
import Foundation
import NIOCore
import NIOPosix

/// Several relays on one machine: PostgreSQL with or without a standby, the nodes, and a balancer in front of them.
///
/// Starts again what ends or stands still, and promotes the standby if the primary does not answer. For trying and testing
/// a cluster: one machine is no protection against the loss of one.
package actor LocalCluster {
    package struct Settings: Sendable {
        /// The folder for the data and logs of all.
        package var folder: String
        package var nodes = 3
        package var hasStandby = false
        /// The number of databases over which the users are spread; each has a server of its own, the first one the standby.
        package var shards = 1
        /// Makes the program that adds a database to the cluster, and ends.
        package var shardProgram: (@Sendable (_ url: String, _ store: Store) -> ClusterProgram)?
        /// The address for clients.
        package var host = "127.0.0.1"
        package var port = 0
        /// Whether the connections to the servers go through proxies, so that they can be cut.
        package var canCut = false
        /// Additional settings of PostgreSQL, as `name=value`.
        package var serverSettings: [String] = []
        /// Makes the program of a node.
        package var program: @Sendable (_ node: String, _ store: Store) -> ClusterProgram

        package init(folder: String, program: @escaping @Sendable (String, Store) -> ClusterProgram) {
            self.folder = folder
            self.program = program
        }
    }

    /// Where the nodes find their database.
    package struct Store: Sendable {
        /// Has all servers, without the password.
        package var url: String
        package var password: String
    }

    package struct StartError: Error, CustomStringConvertible {
        package let description: String
    }

    /// A server, its place, and the proxies to it.
    private struct Member {
        var place: PostgresServer.Place
        var server: PostgresServer?
        /// In front of it, for the other server.
        var proxy: TCPBalancer?
        var proxyPort: Int?
    }

    private let settings: Settings
    private let folder: ClusterFolder
    private let log: @Sendable (String) -> Void
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    private let balancer: TCPBalancer
    private var members: [Member] = []
    /// Those of the databases after the first.
    private var shards: [(place: PostgresServer.Place, server: PostgresServer)] = []
    /// The place of the primary in `members`.
    private var primary = 0
    private var confirmingStandby: String?
    private var failovers = 0
    private var nodes: [ClusterNode] = []
    /// For each node, the proxies to the servers.
    private var nodeProxies: [String: [TCPBalancer]] = [:]
    private var stores: [String: Store] = [:]
    private var tasks: [Task<Void, Never>] = []
    private var isStopping: Bool { stopping != nil }
    /// Stops all; `nil` until the first call of `stop`.
    private var stopping: Task<Void, Never>?
    private var isWatchingServers = true
    private var address = ""
    /// Of the folder; `nil` if this cluster does not have it.
    private var lock: Int32?

    package init(_ settings: Settings, log: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.log = log
        folder = ClusterFolder(settings.folder)
        balancer = TCPBalancer(on: group)
    }

    // MARK: Start and stop

    /// Starts everything; returns the address for clients once all nodes are ready.
    package func start() async throws -> String {
        do { lock = try folder.lock() } catch {
            throw StartError(description: "The folder \(settings.folder) cannot be created or written.")
        }
        guard lock != nil else {
            throw StartError(
                description: """
                    A cluster runs in \(settings.folder) already. Stop it: zonecast cluster stop --data \(settings.folder)
                    """
            )
        }
        do {
            try await startServers()
            let port = try await listen()
            address = "http://\(settings.host):\(port)"
            for number in 1...settings.nodes { try await startNode("node\(number)") }
            try await waitForNodes()
            for shard in shards { try await add(shard.place) }
        } catch {
            await stop()
            throw error
        }
        tasks.append(Task { await self.watchServers() })
        return address
    }

    private func listen() async throws -> Int {
        do {
            return try await balancer.listen(host: settings.host, port: settings.port)
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            let place = "\(settings.host):\(settings.port)"
            throw StartError(description: "Another program listens on \(place). Choose another port with --listen.")
        }
    }

    /// Stops the nodes, then the servers; their data stays.
    ///
    /// A cluster whose start failed has stopped by itself.
    package func stop() async {
        let task = stopping ?? Task { await stopAll() }
        stopping = task
        await task.value
    }

    private func stopAll() async {
        balancer.targets = []
        let nodes = nodes
        await Self.blocking {
            for node in nodes { node.stop() }
            let deadline = Date(timeIntervalSinceNow: 15)
            for node in nodes {
                while node.processIdentifier != nil, Date() < deadline { usleep(50_000) }
                node.stop(force: true)
                node.waitUntilExit()
            }
        }
        for task in tasks { await task.value }
        tasks = []
        await balancer.stop()
        for proxy in nodeProxies.values.flatMap({ $0 }) + members.compactMap(\.proxy) { await proxy.stop() }
        // The standby last, so that it has all that the primary wrote.
        let order = [primary] + members.indices.filter { $0 != primary }
        for server in order.compactMap({ members.indices.contains($0) ? members[$0].server : nil }) {
            await Self.blocking { server.stop() }
        }
        for shard in shards { await Self.blocking { shard.server.stop() } }
        if let lock {
            folder.removeStatus()
            close(lock)
        }
        try? await group.shutdownGracefully()
    }

    /// Runs what blocks on a thread of its own.
    private static func blocking<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
        }
    }

    private static func blocking(_ body: @escaping @Sendable () -> Void) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                body()
                continuation.resume()
            }
        }
    }

    // MARK: Servers

    private static let database = "zonecast"

    private func startServers() async throws {
        let password = try folder.password()
        let last = folder.primary
        // Without a standby, the server that has all data.
        for name in settings.hasStandby ? ["a", "b"] : [last == "server_b" ? "b" : "a"] {
            let path = settings.folder + "/server-\(name)"
            let port = try Self.port(keptIn: path)
            let place = PostgresServer.Place(folder: path, port: port, password: password, name: "server_\(name)")
            var member = Member(place: place)
            if settings.canCut {
                let proxy = TCPBalancer(on: group)
                member.proxyPort = try await proxy.listen(host: "127.0.0.1", port: 0)
                proxy.targets = [.init(name: name, port: port)]
                member.proxy = proxy
            }
            members.append(member)
        }
        primary = members.firstIndex { $0.place.name == last } ?? 0
        log("PostgreSQL starts in \(members[primary].place.folder).")
        try await runPrimary()
        guard let server = members[primary].server else { return }
        try await Self.blocking {
            let known = try server.execute("SELECT count(*) FROM pg_database WHERE datname = '\(Self.database)'")
            if known == "0" { try server.execute("CREATE DATABASE \(Self.database)") }
        }
        if settings.hasStandby { try await startStandby() }
        for number in 1..<max(settings.shards, 1) { try await startShard(number + 1, password) }
    }

    // MARK: Shards

    private func startShard(_ number: Int, _ password: String) async throws {
        let path = settings.folder + "/server-shard\(number)"
        let place = PostgresServer.Place(
            folder: path,
            port: try Self.port(keptIn: path),
            password: password,
            name: "server_shard\(number)"
        )
        log("PostgreSQL starts in \(path).")
        shards.append((place, try await startShard(place)))
    }

    private func startShard(_ place: PostgresServer.Place) async throws -> PostgresServer {
        let settings = settings.serverSettings
        return try await Self.blocking {
            let server = try PostgresServer(place, following: nil, through: nil, settings: settings)
            let known = try server.execute("SELECT count(*) FROM pg_database WHERE datname = '\(Self.database)'")
            if known == "0" { try server.execute("CREATE DATABASE \(Self.database)") }
            return server
        }
    }

    /// Adds a server's database to the cluster; one that was added before stays.
    private func add(_ place: PostgresServer.Place) async throws {
        guard let program = settings.shardProgram, let store = stores.values.first else { return }
        let url = "postgres://postgres@127.0.0.1:\(place.port)/\(Self.database)"
        let run = program(url, store)
        let path = settings.folder + "/\(place.name).log"
        let status = try await Self.blocking {
            _ = FileManager.default.createFile(atPath: path, contents: nil)
            let process = ChildProcess()
            process.executableURL = run.executable
            process.arguments = run.arguments
            process.environment = run.environment
            let output = FileHandle(forWritingAtPath: path) ?? FileHandle.nullDevice
            process.standardOutput = output
            process.standardError = output
            try process.run()
            process.waitUntilExit()
            return process.terminationStatus
        }
        guard status == 0 else {
            throw StartError(description: "The database \(url) was not added. The reason is in \(path).")
        }
    }

    private func restartShards() async {
        for (place, shard) in shards.enumerated() where !shard.server.isRunning {
            log("\(shard.place.name) ended and starts again.")
            do { shards[place].server = try await startShard(shard.place) } catch {
                log("\(shard.place.name) did not start: \(error)")
            }
        }
    }

    /// Whether a server is a standby, or would start as one: the file is there until the server is promoted.
    private static func isStandby(_ place: PostgresServer.Place) -> Bool {
        FileManager.default.fileExists(atPath: place.folder + "/data/standby.signal")
    }

    /// The port of a server stays the same, since the standby and the nodes know it.
    private static func port(keptIn folder: String) throws -> Int {
        let file = folder + "/port"
        if let text = try? String(contentsOfFile: file, encoding: .utf8), let port = Int(text) { return port }
        let port = try freePort()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try "\(port)".write(toFile: file, atomically: true, encoding: .utf8)
        return port
    }

    private static func freePort() throws -> Int {
        #if canImport(Darwin)
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        defer { close(descriptor) }
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        return Int(UInt16(bigEndian: place.sin_port))
    }

    /// Starts a server; with `source`, as a standby of that one.
    private func runServer(_ number: Int, following source: Int? = nil) async throws {
        let place = members[number].place
        let primary = source.flatMap { members[$0].server }
        let port = source.flatMap { members[$0].proxyPort }
        let settings = settings.serverSettings
        members[number].server = try await Self.blocking {
            try PostgresServer(place, following: primary, through: port, settings: settings)
        }
    }

    /// Starts the primary if it does not run, and promotes it if it has not become the primary yet.
    private func runPrimary() async throws {
        if members[primary].server == nil { try await runServer(primary) }
        guard let server = members[primary].server else { return }
        let isStandby = Self.isStandby(members[primary].place)
        try await Self.blocking {
            if isStandby { try server.promote() }
            try server.requireStandby(nil)
        }
    }

    /// Starts the standby as a new copy of the primary, and lets commits wait for it once it follows.
    private func startStandby() async throws {
        guard let number = members.indices.first(where: { $0 != primary }), let server = members[primary].server else {
            return
        }
        let place = members[number].place
        confirmingStandby = nil
        // A former primary may have commits that the present one has not.
        try? FileManager.default.removeItem(atPath: place.folder + "/data")
        try await runServer(number, following: primary)
        try await Self.blocking {
            for _ in 0..<600 {
                if try server.standbys()[place.name] != nil { break }
                usleep(50_000)
            }
            try server.requireStandby(place.name)
        }
        confirmingStandby = place.name
        log("The standby \(place.name) has all data; commits wait for it from now on.")
        writeStatus()
    }

    /// How often a primary may not answer in a row.
    private static let mostMisses = 2

    private func watchServers() async {
        var misses = 0
        while !isStopping {
            writeStatus()
            try? await Task.sleep(for: .milliseconds(250))
            if !isStopping, isWatchingServers { await restartShards() }
            if !isStopping, isWatchingServers,
                members[primary].server == nil || Self.isStandby(members[primary].place)
            {
                // An attempt has failed.
                do { try await runPrimary() } catch { log("No server could take over: \(error)") }
                continue
            }
            guard !isStopping, isWatchingServers, let server = members[primary].server else { continue }
            let isRunning = server.isRunning
            let answers = isRunning ? (try? await Self.blocking { server.answers() }) ?? false : false
            misses = answers ? 0 : misses + 1
            guard !isStopping, isWatchingServers else { continue }
            if !isRunning || misses >= Self.mostMisses {
                misses = 0
                do { try await failOver() } catch { log("No server could take over: \(error)") }
            } else if members.count > 1, members[1 - primary].server?.isRunning != true {
                log("\(members[1 - primary].place.name) becomes the standby, with a new copy of the data.")
                // Commits wait until it is back.
                do { try await startStandby() } catch { log("The standby did not start: \(error)") }
            }
        }
    }

    private func failOver() async throws {
        log("The primary \(members[primary].place.name) does not answer.")
        if let old = members[primary].server {
            // It must write nothing any more once another one is the primary.
            await Self.blocking { old.kill() }
            members[primary].server = nil
        }
        guard members.count > 1, let standby = members[1 - primary].server, standby.isRunning else {
            log("There is no standby: the primary starts again.")
            return try await runPrimary()
        }
        // Written down first: from now on, what the former primary has may be too little, even for a later start.
        try folder.setPrimary(members[1 - primary].place.name)
        primary = 1 - primary
        failovers += 1
        confirmingStandby = nil
        try await runPrimary()
        log("The standby \(members[primary].place.name) is the primary now.")
        writeStatus()
    }

    // MARK: Nodes

    private func startNode(_ name: String) async throws {
        var ports = members.map(\.place.port)
        if settings.canCut {
            var proxies: [TCPBalancer] = []
            for (place, member) in members.enumerated() {
                let proxy = TCPBalancer(on: group)
                proxy.targets = [.init(name: member.place.name, port: member.place.port)]
                ports[place] = try await proxy.listen(host: "127.0.0.1", port: 0)
                proxies.append(proxy)
            }
            nodeProxies[name] = proxies
        }
        let hosts = ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
        let store = Store(url: "postgres://postgres@\(hosts)/\(Self.database)", password: try folder.password())
        stores[name] = store
        let node = ClusterNode(name: name, log: settings.folder + "/\(name).log")
        nodes.append(node)
        tasks.append(Task { await self.keepRunning(node, settings.program(name, store)) })
        tasks.append(Task { await self.keepChecking(node) })
    }

    private func keepRunning(_ node: ClusterNode, _ program: ClusterProgram) async {
        var pause = Duration.milliseconds(100)
        while !isStopping {
            let start = ContinuousClock.now
            do {
                try await Self.blocking { try node.run(program) }
            } catch {
                log("\(node.name) did not start: \(error)")
            }
            guard !isStopping else { return }
            showTargets()
            log("\(node.name) \(node.end) It starts again.")
            // One that ends at once would keep the machine busy.
            pause = ContinuousClock.now - start > .seconds(10) ? .milliseconds(100) : min(pause * 2, .seconds(5))
            try? await Task.sleep(for: pause)
        }
    }

    /// The number of health checks without an answer, each of two seconds, after which a node is killed.
    private static let mostUnanswered = 6

    private func keepChecking(_ node: ClusterNode) async {
        while !isStopping {
            let wasHealthy = node.isHealthy
            let unanswered = await node.check(on: group)
            if node.isHealthy != wasHealthy { showTargets() }
            if unanswered == Self.mostUnanswered {
                log("\(node.name) does not answer and is killed.")
                node.stop(force: true)
            }
            try? await Task.sleep(for: .milliseconds(250))
        }
    }

    private func showTargets() {
        balancer.targets = nodes.compactMap { node in
            node.port.flatMap { node.isHealthy ? TCPBalancer.Target(name: node.name, port: $0) : nil }
        }
        writeStatus()
    }

    private func waitForNodes() async throws {
        for _ in 0..<600 {
            if nodes.allSatisfy(\.isHealthy) { return }
            // A node that ends at once will not do better the fifth time.
            if let node = nodes.first(where: { $0.restarts >= 4 }) {
                throw StartError(description: "\(node.name) \(node.end)")
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        let missing = nodes.filter { !$0.isHealthy }.map(\.name).joined(separator: ", ")
        throw StartError(
            description: "\(missing) did not get ready within 2 minutes. The logs are in \(settings.folder)."
        )
    }

    // MARK: Status

    package var folderPath: String { settings.folder }

    package var status: ClusterStatus {
        var status = ClusterStatus(address: address, process: getpid(), failovers: failovers)
        let connections = balancer.connections
        status.nodes = nodes.map { node in
            ClusterStatus.Node(
                name: node.name,
                address: node.port.map { "127.0.0.1:\($0)" },
                process: node.processIdentifier,
                isReady: node.isHealthy,
                restarts: node.restarts,
                connections: connections[node.name] ?? 0
            )
        }
        status.servers = members.enumerated().map { number, member in
            let isRunning = member.server?.isRunning == true
            return ClusterStatus.Server(
                name: member.place.name,
                port: member.place.port,
                role: !isRunning ? .down : number == primary ? .primary : .standby,
                confirmingStandby: number == primary ? confirmingStandby : nil
            )
        }
        status.servers += shards.map { shard in
            ClusterStatus.Server(
                name: shard.place.name,
                port: shard.place.port,
                role: shard.server.isRunning ? .primary : .down,
                confirmingStandby: nil
            )
        }
        return status
    }

    private func writeStatus() { if !isStopping, !address.isEmpty { folder.write(status) } }

    // MARK: Faults

    /// What can be done to a cluster to see that it bears it.
    package enum Fault: Hashable, Sendable {
        case nodeKilled(String)
        case nodeSuspended(String)
        case nodeResumed(String)
        case primaryKilled
        /// The primary stands still; the cluster kills it and promotes the standby.
        case primarySuspended
        case nodeCut(String, Bool)
        case standbyCut(Bool)
        /// The server ends the connections on which nodes listen.
        case listenersEnded
        /// The server of a database after the first; it starts again.
        case shardKilled(Int)
    }

    package func cause(_ fault: Fault) async throws {
        switch fault {
        case .nodeKilled(let name): node(name)?.signal(SIGKILL)
        case .nodeSuspended(let name): node(name)?.signal(SIGSTOP)
        case .nodeResumed(let name): node(name)?.signal(SIGCONT)
        case .primaryKilled:
            guard let server = members[primary].server else { return }
            await Self.blocking { server.kill() }
        case .primarySuspended:
            guard let server = members[primary].server else { return }
            await Self.blocking { server.signal(SIGSTOP) }
        case .shardKilled(let number):
            guard number > 1, number - 2 < shards.count else { return }
            let server = shards[number - 2].server
            await Self.blocking { server.kill() }
        case .nodeCut(let name, let isCut): nodeProxies[name]?.forEach { $0.isCut = isCut }
        case .standbyCut(let isCut): members[primary].proxy?.isCut = isCut
        case .listenersEnded:
            _ = try await execute("SELECT pg_terminate_backend(backend::int) FROM node WHERE backend IS NOT NULL")
        }
    }

    private func node(_ name: String) -> ClusterNode? { nodes.first { $0.name == name } }

    /// Runs a statement in the nodes' database.
    package func execute(_ sql: String) async throws -> String {
        guard let server = members[primary].server else { throw StartError(description: "There is no primary.") }
        return try await Self.blocking { try server.execute(sql, in: Self.database) }
    }

    /// Waits until every node is ready and commits wait for the standby again, if there is one.
    package func waitUntilComplete() async throws {
        for _ in 0..<1_200 {
            let status = status
            if status.isComplete, !settings.hasStandby || confirmingStandby != nil { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw StartError(description: "The cluster is not complete after 2 minutes: \(status)")
    }
}
