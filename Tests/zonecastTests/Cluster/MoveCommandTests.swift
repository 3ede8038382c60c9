#if Postgres
    import ChildProcesses
    import Foundation
    import Synchronization
    import TestSupport
    import Testing

    /// `zonecast cluster import` and `export`, with relays that serve meanwhile.
    @Suite(
        .ownThread,
        .timeLimit(.minutes(15)),
        .enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)")
    )
    struct MoveCommandTests {
        private let folder = ScratchFolder()
        private let zones = ["one", "two"]

        private func path(_ name: String) -> String { "\(folder.path)/\(name)" }

        /// Clients that write new values until they are stopped, and repeat what was refused.
        private final class SteadyWriters: Sendable {
            private let isStopped = Atomic(false)
            private let group = DispatchGroup()

            init(_ count: Int, in zones: [String], on relay: RelayProcess, _ ledger: Ledger) {
                for number in 0..<count {
                    let (zone, port) = (zones[number % zones.count], relay.port)
                    group.enter()
                    Thread { [self] in
                        write(number, zone, port, ledger)
                        group.leave()
                    }.start()
                }
            }

            func stop() {
                isStopped.store(true, ordering: .relaxed)
                group.wait()
            }

            private func write(_ number: Int, _ zone: String, _ port: Int, _ ledger: Ledger) {
                // Continues after an earlier round; a value that may have arrived is never used for another record.
                var value = (ledger.entries.filter { $0.key.hasPrefix("s\(number)-") }.map(\.value.sent).max() ?? 0) + 1
                var connection: HTTPConnection?
                while !isStopped.load(ordering: .relaxed) {
                    let name = value % 4 == 0 ? "s\(number)-new\(value)" : "s\(number)-\(value % 10)"
                    ledger.willSend(value, to: name, in: zone)
                    connection = connection ?? (try? HTTPConnection(port: port))
                    if let connection, (try? Self.send(value, name, zone, connection)) == true {
                        ledger.acknowledged(value, of: name)
                        value += 1
                    } else {
                        connection = nil
                        usleep(10_000)
                    }
                }
            }

            /// Returns whether the relay has stored the value.
            private static func send(_ value: Int, _ name: String, _ zone: String, _ connection: HTTPConnection) throws
                -> Bool
            {
                let record = #"{"recordName":"\#(name)","recordType":"Note","fields":{"value":{"value":\#(value)}}}"#
                let operation = #"{"operationType":"forceUpdate","record":\#(record)}"#
                let body = #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(operation)]}"#
                let answer = try connection.send("POST", Path.to("records/modify"), body: body)
                struct Result: Decodable {
                    struct Record: Decodable { var recordChangeTag: String? }
                    var records: [Record]
                }
                return try answer.status == 200 && answer.json(Result.self).records.first?.recordChangeTag != nil
            }
        }

        /// A run of a command that is killed when it reports a step.
        private func run(_ arguments: [String], killedAt step: Int) throws -> (steps: [String], status: Int32) {
            let process = ChildProcess()
            process.executableURL = Command.program
            process.arguments = arguments
            process.environment = Command.cleanEnvironment()
            let errors = Pipe()
            process.standardError = errors
            process.standardOutput = FileHandle.nullDevice
            process.standardInput = FileHandle.nullDevice
            try process.run()
            var (text, lines) = ("", [String]())
            while true {
                let data = errors.fileHandleForReading.availableData
                if data.isEmpty { break }
                text += String(decoding: data, as: UTF8.self)
                lines = text.split(separator: "\n").map(String.init)
                if lines.count > step { kill(process.processIdentifier, SIGKILL) }
            }
            process.waitUntilExit()
            return (lines, process.terminationStatus)
        }

        @Test("a folder moves into a database under writers, whatever step is killed, and back into a folder")
        func thereAndBack() throws {
            let store = try PostgresServer.shared.get().makeDatabase()
            let old = try RelayProcess(folder: path("old"))
            try Path.makeZones(zones, on: old)
            let ledger = Ledger()
            var followers = zones.map { Follower(zone: $0) }
            let arguments = ["cluster", "import", "--data", path("old"), "--store", store]
            let writers = SteadyWriters(2, in: zones, on: old, ledger)
            var step = 0
            while true {
                #expect(ledger.waitForAcknowledgements(20, until: Date(timeIntervalSinceNow: 120)))
                for index in followers.indices { try followers[index].catchUp(on: old, pageSize: 50) }
                let attempt = try run(arguments, killedAt: step)
                // A command that dies while requests are refused leaves the relay in use.
                if FileManager.default.fileExists(atPath: "\(path("old"))/moved") || attempt.status == 0 { break }
                step += 1
            }
            #expect(step >= 7, "\(step) steps were killed")
            #expect(try old.end() == 0, "the relay on a folder that moved ends")
            writers.stop()
            // Completes what was killed after the mark, or says that it was complete.
            let last = try Command.run(arguments + ["--json"])
            #expect(last.status == 0 || last.errors.contains("moved to the database"), "\(last.errors)")
            let refused = try Command.run(["serve", "--data", path("old"), "--listen", "127.0.0.1:0"])
            #expect(refused.status == 5 && refused.errors.contains("moved to the database"), "\(refused.errors)")

            let environment = ["ZONECAST_STORE": store]
            let node = try RelayProcess(folder: path("node"), environment: environment)
            for index in followers.indices {
                try followers[index].catchUp(on: node, pageSize: 50)
                try followers[index].check(on: node, ledger, "after the import")
            }
            let later = SteadyWriters(2, in: zones, on: node, ledger)
            #expect(ledger.waitForAcknowledgements(20, until: Date(timeIntervalSinceNow: 120)))
            let export = try Command.run(["cluster", "export", "--data", path("new"), "--store", store, "--json"])
            #expect(export.status == 0, "\(export.errors)")
            _ = node.stop()
            later.stop()
            let stopped = try Command.run(
                ["serve", "--data", path("node"), "--listen", "127.0.0.1:0"],
                environment: environment
            )
            #expect(stopped.status != 0 && stopped.errors.contains("moved to the folder"), "\(stopped.errors)")
            let new = try RelayProcess(folder: path("new"))
            for index in followers.indices {
                try followers[index].catchUp(on: new, pageSize: 50)
                try followers[index].check(on: new, ledger, "after the export")
            }
            _ = new.stop()
        }

        /// The change tags and values of a zone's records, by their names.
        private func records(of zone: String, on relay: RelayProcess) throws -> [String: [String]] {
            struct Answer: Decodable {
                struct Zone: Decodable { var records: [Record] }
                struct Record: Decodable {
                    struct Field: Decodable { var value: Int }
                    var recordName: String
                    var recordChangeTag: String?
                    var fields: [String: Field]?
                }
                var zones: [Zone]
            }
            let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"resultsLimit":200}]}"#
            let answer = try relay.connect().send("POST", Path.to("changes/zone"), body: body)
            let page = try #require(try answer.json(Answer.self).zones.first)
            return Dictionary(
                page.records.map { ($0.recordName, [$0.recordChangeTag ?? "", "\($0.fields?["value"]?.value ?? -1)"]) }
            ) { $1 }
        }

        @Test("a user moves between databases under writers of two relays, whatever step is killed")
        func ownerMoves() throws {
            let server = try PostgresServer.shared.get()
            let urls = try (0..<2).map { _ in try server.makeDatabase() }
            let names = urls.map { $0.split(separator: "?")[0].split(separator: "/").last.map(String.init) ?? "" }
            let environment = ["ZONECAST_STORE": urls[0]]
            let nodes = try ["n1", "n2"].map {
                try RelayProcess(folder: path($0), ["--dev", "--node", $0], environment: environment)
            }
            func zonecast(_ arguments: [String]) throws -> Command {
                try Command.run(arguments + ["--data", path("n1")], environment: environment)
            }
            let added = try zonecast(["cluster", "shard", "add", urls[1]])
            #expect(added.status == 0, "\(added.errors)")
            try Path.makeZones(zones, on: nodes[0])
            /// Returns the user whose zones are in a database.
            func owner(in database: String) throws -> String? {
                let sql =
                    "SELECT p.name FROM zone z JOIN person p ON p.id = z.owner WHERE z.name = 'one' AND NOT z.deleted"
                let text = try server.execute(sql, in: database)
                return text.isEmpty ? nil : text
            }
            let user = try #require(try owner(in: names[0]) ?? owner(in: names[1]))
            var shard = try owner(in: names[0]) == nil ? 2 : 1
            // One for each writer, since both use the same names of records.
            let ledgers = zones.map { _ in Ledger() }
            var followers = zones.map { Follower(zone: $0) }
            let writers = zones.indices.map { SteadyWriters(1, in: [zones[$0]], on: nodes[$0], ledgers[$0]) }
            func waitForWriters() {
                let end = Date(timeIntervalSinceNow: 120)
                for ledger in ledgers { #expect(ledger.waitForAcknowledgements(10, until: end)) }
            }
            var killed = 0
            func move(killedAt step: Int?) throws {
                let target = 3 - shard
                let arguments = [
                    "cluster", "move", user, "--container", Path.container, "--environment", "development", "--to",
                    "\(target)",
                ]
                if let step {
                    let attempt = try run(
                        arguments + ["--data", path("n1"), "--store", urls[0]],
                        killedAt: step
                    )
                    if attempt.status != 0 { killed += 1 }
                }
                // A relay may be completing the move: it does so once a minute.
                var last = try zonecast(arguments)
                for _ in 0..<5 where last.status != 0 { last = try zonecast(arguments) }
                #expect(last.status == 0, "\(last.errors)")
                #expect(try owner(in: names[target - 1]) == user && owner(in: names[shard - 1]) == nil)
                shard = target
            }
            for step in 0..<6 {
                waitForWriters()
                try move(killedAt: step)
                for index in followers.indices { try followers[index].catchUp(on: nodes[index], pageSize: 50) }
            }
            #expect(killed >= 4, "\(killed) moves were killed")
            waitForWriters()
            for writer in writers { writer.stop() }
            for index in followers.indices {
                try followers[index].catchUp(on: nodes[1 - index], pageSize: 50)
                try followers[index].check(on: nodes[index], ledgers[index], "after the moves")
            }
            // Nothing is written now, so all rows with their change tags are the same, and no token brings a change.
            let before = try zones.map { try records(of: $0, on: nodes[0]) }
            try move(killedAt: 2)
            #expect(try zones.map { try records(of: $0, on: nodes[1]) } == before)
            let values = followers.map(\.values)
            for index in followers.indices {
                try followers[index].catchUp(on: nodes[index], pageSize: 50)
                #expect(followers[index].values == values[index])
            }
            let list = try zonecast(["cluster", "shard", "list"])
            #expect(list.status == 0 && !list.output.contains("unfinished"), "\(list.output)")
            for node in nodes { _ = node.stop() }
        }

        @Test("a database that has data, and a folder that has none, are refused with a sentence") func refusals()
            throws
        {
            let store = try PostgresServer.shared.get().makeDatabase()
            let empty = try Command.run(["cluster", "import", "--data", path("none"), "--store", store])
            #expect(empty.status == 1 && empty.errors.contains("no relay data"), "\(empty.errors)")
            for name in ["a", "b"] {
                let made = try Command.run(["container", "create", "iCloud.org.example.\(name)", "--data", path(name)])
                #expect(made.status == 0, "\(made.errors)")
            }
            let first = try Command.run(["cluster", "import", "--data", path("a"), "--store", store])
            #expect(first.status == 0, "\(first.errors)")
            let second = try Command.run(["cluster", "import", "--data", path("b"), "--store", store])
            #expect(second.status == 5 && second.errors.contains("data of its own"), "\(second.errors)")
            let full = try Command.run(["cluster", "export", "--data", path("b"), "--store", store])
            #expect(full.status == 5 && full.errors.contains("not empty"), "\(full.errors)")
        }
    }
#endif
