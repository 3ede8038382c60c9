import ArgumentParser
import Foundation
import LocalCluster

/// `zonecast cluster`: several relays over one PostgreSQL on this machine.
struct ClusterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Try several relays over PostgreSQL on this machine.",
        discussion: """
            Starts PostgreSQL, with --standby also a second server that has every confirmed write, several relays, and a balancer \
            with one address in front of them. What ends is started again, and the standby takes over if the first server fails. \
            This shows how a cluster behaves; a real one needs several machines: see the guide "Growing beyond one machine".
            """,
        subcommands: [
            Start.self, Status.self, Stop.self, Import.self, Export.self, ShardCommand.self, Move.self, Balance.self,
        ]
    )
}

struct ClusterFolderOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("The cluster's folder.", valueName: "dir"),
        completion: .directory
    )
    var data = "zonecast-cluster"

    var folder: ClusterFolder { ClusterFolder(URL(fileURLWithPath: data).path) }

    func validate() throws {
        if data.isEmpty { throw ValidationError("--data is empty. Name the cluster's folder.") }
    }

    /// Returns what runs.
    ///
    /// - Throws: `CommandFailure` if nothing does.
    func running() throws -> ClusterStatus {
        guard let status = folder.status else {
            throw CommandFailure(.failed, "No cluster runs in \(data). Start one: zonecast cluster start")
        }
        return status
    }
}

extension ClusterCommand {
    /// Throws if this program has no store on PostgreSQL, so that its relays could not start.
    static func requireStore() throws {
        #if !Postgres
            throw CommandFailure(
                .usage,
                "This zonecast was built without PostgreSQL, so it cannot run a cluster. Build it with: swift build --traits Server,Postgres"
            )
        #endif
    }

    struct Start: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Start a cluster; runs until control-C or zonecast cluster stop.",
            discussion: """
                Prints  ready http://HOST:PORT  on standard output once all relays are ready; what happens later goes to standard \
                error. The folder keeps the data, and a later start continues with it.
                """
        )

        @OptionGroup var options: ClusterFolderOption

        @Option(help: ArgumentHelp("The number of relays, 1 to 16.", valueName: "n"))
        var nodes = 3

        @Option(help: ArgumentHelp("The number of databases over which the users are spread, 1 to 8.", valueName: "n"))
        var shards = 1

        @Flag(help: "Also run a standby, which has every confirmed write and takes over if the first server fails.")
        var standby = false

        @Option(
            help: ArgumentHelp(
                "The address and port for clients; with port 0, the system chooses one. (default: 127.0.0.1:8080)",
                valueName: "host:port"
            )
        )
        var listen: String?

        @Flag(help: "Run the relays with --dev: any dev-NAME is a user, and unknown containers are created.")
        var dev = false

        func validate() throws {
            guard (1...16).contains(nodes) else { throw ValidationError("--nodes takes 1 to 16.") }
            guard (1...8).contains(shards) else { throw ValidationError("--shards takes 1 to 8.") }
            _ = try place()
        }

        private func place() throws -> (host: String, port: Int) {
            guard let listen else { return ("127.0.0.1", 8_080) }
            guard let address = ListenAddress(listen) else {
                throw ValidationError("--listen takes an address and a port, like 127.0.0.1:8080.")
            }
            return (address.host, address.port)
        }

        func run() async throws {
            try ClusterCommand.requireStore()
            var settings = LocalCluster.Settings.ofThisProgram(folder: options.folder.path, isDev: dev)
            (settings.host, settings.port) = try place()
            (settings.nodes, settings.hasStandby, settings.shards) = (nodes, standby, shards)
            if dev, settings.host != "127.0.0.1" {
                throw CommandFailure(.usage, "--dev is allowed on 127.0.0.1 only. Remove it or --listen.")
            }
            let cluster = LocalCluster(settings) { Terminal.sayError($0) }
            let task = InterruptibleTask()
            let failure = await task.wait {
                do {
                    let address = try await cluster.start()
                    Terminal.announce("ready \(address)")
                } catch {
                    // The cluster has stopped by itself.
                    return task.isOver ? () : task.end(CommandFailure(.failed, "\(error)"))
                }
                // Until a signal cancels the task.
                while !Task.isCancelled { try? await Task.sleep(for: .seconds(3_600)) }
                Terminal.sayError("The cluster stops.")
                await cluster.stop()
            }
            if let failure { throw failure }
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the relays and servers of a running cluster.")

        @OptionGroup var options: ClusterFolderOption
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            let status = try options.running()
            if json { return try Terminal.say(json: status) }
            Terminal.say("address  \(status.address)")
            Terminal.say(
                table: status.nodes.map { node in
                    [
                        node.name, node.isReady ? "ready" : node.process == nil ? "down" : "not ready",
                        node.address ?? "-", "\(node.connections)", "\(node.restarts)",
                    ]
                },
                heading: ["relay", "state", "address", "connections", "restarts"],
                empty: ""
            )
            Terminal.say(
                table: status.servers.map { server in
                    [
                        server.name, server.role.rawValue, "127.0.0.1:\(server.port)",
                        server.confirmingStandby.map { "commits wait for \($0)" } ?? "-",
                    ]
                },
                heading: ["server", "role", "address", "standby"],
                empty: ""
            )
            if status.failovers > 0 { Terminal.say("failovers  \(status.failovers)") }
        }
    }

    struct Stop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Stop a running cluster; its data stays.")

        @OptionGroup var options: ClusterFolderOption
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            let status = try options.running()
            kill(status.process, SIGTERM)
            for _ in 0..<600 {
                guard options.folder.isRunning else {
                    if json { return try Terminal.say(json: ["stopped": options.folder.path]) }
                    return Terminal.tell("The cluster was stopped.")
                }
                try await Task.sleep(for: .milliseconds(100))
            }
            throw CommandFailure(.failed, "The cluster in \(options.data) has not stopped within a minute.")
        }
    }
}

extension LocalCluster.Settings {
    /// A cluster whose nodes are relays of this program.
    static func ofThisProgram(folder: String, isDev: Bool) -> Self {
        let environment = { @Sendable (store: LocalCluster.Store) -> [String: String] in
            var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ZONECAST_") }
            environment["ZONECAST_STORE_PASSWORD"] = store.password
            // All clients come through the balancer, from one address.
            environment["ZONECAST_LIMITS_CONNECTIONS_PER_ADDRESS"] = "100000"
            return environment
        }
        var settings = LocalCluster.Settings(folder: folder) { node, store in
            ClusterProgram(
                executable: DemoRelay.program,
                arguments: [
                    "serve", "--store", store.url, "--node", node, "--data", "\(folder)/\(node)", "--listen",
                    "127.0.0.1:0", "--stop-with-input",
                ] + (isDev ? ["--dev"] : []),
                environment: environment(store)
            )
        }
        settings.shardProgram = { url, store in
            ClusterProgram(
                executable: DemoRelay.program,
                arguments: ["cluster", "shard", "add", url, "--store", store.url, "--data", "\(folder)/node1"],
                environment: environment(store)
            )
        }
        return settings
    }
}
