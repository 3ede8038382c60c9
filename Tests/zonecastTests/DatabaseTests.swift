import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The address of a database, as commands take and show it.
@Suite struct StoreAddressTests {
    @Test(
        "an address is shown without its password",
        arguments: [
            ("postgres://ann@db/relay", "postgres://ann@db/relay"),
            (
                "postgres://ann:s3cret@db1:5432,db2/relay?sslmode=require",
                "postgres://ann@db1:5432,db2/relay?sslmode=require"
            ),
            ("postgresql://ann:s3c:r@et@db/relay", "postgresql://ann@db/relay"),
            ("postgres://ann:s3c/r@et@db/relay", "postgres://ann@db/relay"),
            ("postgres://ann@db/relay?password=s3cret", "postgres://ann@db/relay"),
            ("postgres://ann@/relay?host=%2Ftmp&PASSWORD=s3cret", "postgres://ann@/relay?host=%2Ftmp"),
            ("postgres:///relay", "postgres:///relay"), ("postgres://ann:s3?cret@db/relay", "postgres://ann@db/relay"),
        ]
    )
    func shown(text: String, shown: String) throws {
        let address = try #require(StoreAddress(text))
        #expect("\(address)" == shown)
        #expect(address.hasPassword == (text != shown))
        #expect((address.objectionToFlag == nil) == (text == shown))
    }

    @Test("what is no such address is refused", arguments: ["", "mysql://db", "/var/lib/zonecast", "postgres:db"])
    func refused(text: String) { #expect(StoreAddress(text) == nil) }

    @Test("a password on the command line is refused without a word of it") func flags() throws {
        for command in [["serve"], ["user", "list"]] {
            let run = try Command.run(command + ["--store", "postgres://ann:s3cret@db/relay"])
            #expect(run.status == 2 && run.errors.contains("ZONECAST_STORE_PASSWORD_FILE"), "\(run.errors)")
            #expect(!run.errors.contains("s3cret"))
        }
    }

    @Test("what is no address is refused with the form of one") func malformed() throws {
        for command in [["serve"], ["container", "list"]] {
            let run = try Command.run(command, environment: ["ZONECAST_STORE": "mysql://ann:s3cret@db"])
            #expect(run.status == 2 && run.errors.contains("postgres://user@host/database"), "\(run.errors)")
            #expect(!run.errors.contains("s3cret"))
        }
    }

    @Test("the folder of a relay on a database, and one with files, are not mistaken for each other") func folders()
        throws
    {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data("abc\n".utf8).write(to: URL(fileURLWithPath: "\(folder.path)/cluster"))
        for command in [["serve", "--listen", "127.0.0.1:0"], ["container", "create", "iCloud.one"]] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 5 && run.errors.contains("the cluster abc"), "\(run.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/relay.sqlite"))
    }

    #if !Postgres
        @Test("a program without PostgreSQL says so") func withoutPostgres() throws {
            for command in [["serve"], ["user", "list"], ["doctor"]] {
                let run = try Command.run(command, environment: ["ZONECAST_STORE": "postgres://ann:s3cret@db/relay"])
                #expect("\(run.output)\(run.errors)".contains("built without PostgreSQL"), "\(run.errors)")
                #expect(run.status != 0 && !"\(run.output)\(run.errors)".contains("s3cret"))
            }
        }
    #endif
}

#if Postgres
    /// Relays and commands on a PostgreSQL server.
    @Suite(
        .ownThread,
        .timeLimit(.minutes(15)),
        .enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)")
    )
    struct DatabaseTests {
        private let folder = ScratchFolder()
        private let container = "iCloud.org.example.notes"

        private func environment() throws -> [String: String] {
            ["ZONECAST_STORE": try PostgresServer.shared.get().makeDatabase()]
        }

        private func zonecast(
            _ arguments: String...,
            input: String = "",
            in environment: [String: String]
        ) throws -> Command {
            try Command.run(arguments + ["--data", folder.path], input: input, environment: environment)
        }

        // MARK: Commands

        @Test("accounts, tokens and schemas are in the database") func commands() throws {
            let store = try environment()
            let empty = try zonecast("user", "list", in: store)
            #expect(empty.status == 1 && empty.errors.contains("is empty"), "\(empty.errors)")
            let created = try zonecast("container", "create", container, in: store)
            #expect(created.status == 0, "\(created.errors)")
            let user = try zonecast(
                "user",
                "create",
                "ada@example.org",
                "--password-stdin",
                input: "correct horse\n",
                in: store
            )
            #expect(user.status == 0, "\(user.errors)")
            #expect(try zonecast("user", "list", in: store).output.contains("ada@example.org"))
            #expect(try zonecast("token", "create", "--container", container, in: store).status == 0)
            let again = try zonecast("container", "create", container, in: store)
            #expect(again.status == 5 && again.errors.contains("already exists"), "\(again.errors)")
            let missing = try zonecast("token", "create", "--container", "iCloud.none", in: store)
            #expect(missing.status == 1 && missing.errors.contains("There is no container iCloud.none in postgres://"))
            let schema = "\(folder.path).ckdb"
            try Data("DEFINE SCHEMA RECORD TYPE Note ( title STRING );".utf8).write(to: URL(fileURLWithPath: schema))
            defer { try? FileManager.default.removeItem(atPath: schema) }
            let imported = try zonecast("schema", "import", schema, "--container", container, in: store)
            #expect(imported.status == 0, "\(imported.errors)")
            let exported = try zonecast("schema", "export", "--container", container, in: store)
            #expect(exported.output.contains("title"), "\(exported.errors)")
            let reset = try zonecast("schema", "reset", "--container", container, "--yes", in: store)
            #expect(reset.status == 0, "\(reset.errors)")
            let log = try zonecast("log", "audit", in: store)
            #expect(log.output.contains("schema.import"), "\(log.errors)")
            let deleted = try zonecast("container", "delete", container, "--yes", in: store)
            #expect(deleted.status == 0, "\(deleted.errors)")
            #expect(!(try zonecast("container", "list", in: store).output.contains(container)))
            #expect(!FileManager.default.fileExists(atPath: folder.path), "no command needs the folder")
        }

        @Test("init sets the database up, and backups are PostgreSQL's own") func setUp() throws {
            let store = try environment()
            let made = try zonecast("init", "--container", container, "--yes", in: store)
            #expect(made.status == 0, "\(made.errors)")
            #expect(try zonecast("container", "list", in: store).output.contains(container))
            for command in [["create"], ["list"], ["schedule", "daily"], ["restore", "latest"]] {
                let run = try Command.run(["backup"] + command + ["--data", folder.path], environment: store)
                #expect(run.status == 1 && run.errors.contains("pg_basebackup"), "\(command): \(run.errors)")
            }
            let doctor = try zonecast("doctor", in: store)
            for check in ["database", "standby", "backup", "database clock", "layout", "LISTEN"] {
                #expect(doctor.output.contains(check), "\(check): \(doctor.output)")
            }
        }

        // MARK: Bad input

        @Test("a server that does not answer, a wrong password and a foreign database get one sentence each")
        func badInput() throws {
            let server = try PostgresServer.shared.get()
            let port = try UnservedPort()
            let foreign = try environment()
            let name = try #require(foreign["ZONECAST_STORE"]).split(separator: "/").last?.split(separator: "?").first
            try server.execute("CREATE TABLE invoice (id bigint)", in: String(name ?? ""))
            let wrong = server.url(of: "postgres", user: "locked").replacingOccurrences(
                of: "locked@",
                with: "locked:s3cret@"
            )
            for (store, words) in [
                (["ZONECAST_STORE": "postgres://ann@127.0.0.1:\(port.number)/relay"], "cannot be reached"),
                (["ZONECAST_STORE": wrong], "refuses to let the relay in"),
                (foreign, "belongs to another program"),
            ] {
                for command in [["serve", "--listen", "127.0.0.1:0"], ["container", "create", container]] {
                    let run = try Command.run(command + ["--data", folder.path], environment: store)
                    #expect(run.status != 0 && run.errors.contains(words), "\(command): \(run.errors)")
                    #expect(!run.errors.contains("s3cret"))
                    #expect(run.errors.split(separator: "\n").count == 1, "\(run.errors)")
                }
                let doctor = try Command.run(["doctor", "--data", folder.path], environment: store)
                #expect(doctor.status == 1 && doctor.output.contains(words), "\(doctor.output)")
                #expect(!doctor.output.contains("s3cret"))
            }
        }

        @Test("the password comes from a file that only the relay may read") func passwordFile() throws {
            let server = try PostgresServer.shared.get()
            let database = try environment()["ZONECAST_STORE"] ?? ""
            let name = database.split(separator: "/").last?.split(separator: "?").first.map { String($0) } ?? ""
            try server.execute("ALTER DATABASE \(name) OWNER TO locked")
            try server.execute("GRANT pg_read_all_settings, pg_monitor TO locked")
            try server.execute("ALTER SCHEMA public OWNER TO locked", in: name)
            try server.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO locked", in: name)
            let file = "\(folder.path).password"
            try Data("\(PostgresServer.lockedPassword)\n".utf8).write(to: URL(fileURLWithPath: file))
            defer { try? FileManager.default.removeItem(atPath: file) }
            let store = ["ZONECAST_STORE": server.url(of: name, user: "locked"), "ZONECAST_STORE_PASSWORD_FILE": file]
            let run = try zonecast("container", "create", container, in: store)
            #expect(run.status == 0, "\(run.errors)")
            let shown = try Command.run(
                ["config", "show", "--json"],
                environment: ["ZONECAST_STORE": "postgres://ann:s3cret@db/relay"]
            )
            #expect(shown.output.contains("ann@db") && !shown.output.contains("s3cret"))
        }

        // MARK: Relays

        @Test("two relays serve one database, each with a folder that remembers the cluster") func twoRelays() throws {
            let store = try environment()
            let folders = [ScratchFolder(), ScratchFolder()]
            let relays = try zip(folders, ["a", "b"]).map { folder, name in
                try RelayProcess(folder: folder.path, ["--dev", "--node", name], environment: store)
            }
            defer { for relay in relays { _ = relay.stop() } }
            let connections = try relays.map { try $0.connect() }
            let path = "/database/1/\(container)/development"
            let body =
                #"{"operations":[{"operationType":"create","record":{"recordName":"one","recordType":"Note","fields":{"title":{"value":"milk"}}}}]}"#
            let saved = try connections[0].send(
                "POST",
                "\(path)/private/records/modify?ckWebAuthToken=dev-alice",
                body: body
            )
            #expect(saved.status == 200, "\(String(decoding: saved.body, as: UTF8.self))")
            let read = try connections[1].send(
                "POST",
                "\(path)/private/records/lookup?ckWebAuthToken=dev-alice",
                body: #"{"records":[{"recordName":"one"}]}"#
            )
            #expect(String(decoding: read.body, as: UTF8.self).contains("milk"))
            for (folder, relay) in zip(folders, relays) {
                #expect(FileManager.default.fileExists(atPath: "\(folder.path)/cluster"))
                #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/relay.sqlite"))
                #expect(try relay.connect().send("GET", "/healthz").status == 200)
            }
        }
    }
#endif
