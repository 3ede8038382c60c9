import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// Commands about users: quotas, export, deletion, sign-ins, profiles and logs.
@Suite(.ownThread, .timeLimit(.minutes(15)), .serialized) struct UserCommandTests {
    private let folder = ScratchFolder()
    private let container = "iCloud.org.example.notes"

    private func zonecast(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(arguments + ["--data", folder.path], input: input)
    }

    private func save(_ connection: HTTPConnection, _ count: Int, bytes: Int = 1) throws -> HTTPConnection.Answer {
        let text = String(repeating: "x", count: bytes)
        let operations = (0..<count).map {
            #"{"operationType":"forceUpdate","record":{"recordName":"n\#($0)","recordType":"Note","#
                + #""fields":{"title":{"value":"\#(text)"}}}}"#
        }
        return try connection.send(
            "POST",
            "/database/1/\(container)/development/private/records/modify?ckWebAuthToken=dev-ada",
            body: #"{"operations":[\#(operations.joined(separator: ","))]}"#
        )
    }

    @Test func aQuotaForOneUserIsApplied() throws {
        struct Shown: Decodable { var user: String, privateQuota: Int? }
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        #expect(try save(connection, 3).status == 200)
        #expect(try zonecast("user", "show", "dev-ada", "--json").json(Shown.self).privateQuota == nil)
        #expect(try zonecast("user", "edit", "dev-ada", "--quota", "2kb").output == "changed\n")
        #expect(try zonecast("user", "show", "dev-ada", "--json").json(Shown.self).privateQuota == 2_000)
        // The running relay applies a new quota within a second or so.
        let deadline = ContinuousClock.now + .seconds(120)
        var refused = false
        var bytes = 900
        while !refused, ContinuousClock.now < deadline {
            // A write that does not grow is always accepted, so each one is larger.
            bytes += 1
            refused = String(decoding: try save(connection, 3, bytes: bytes).body, as: UTF8.self).contains(
                "QUOTA_EXCEEDED"
            )
            if !refused { usleep(100_000) }
        }
        #expect(refused, "waited 120 s for the quota to apply")
        #expect(try zonecast("user", "show", "dev-ada").output.contains("2 kB"))
        #expect(try zonecast("user", "edit", "dev-ada", "--quota", "configured").status == 0)
        #expect(try zonecast("user", "edit", "dev-ada", "--quota", "much").status == 2)
        #expect(try zonecast("user", "edit", "unknown@example.org", "--quota", "1GB").status == 1)
        #expect(relay.stop().status == 0)
    }

    /// The command's sign-in has ended by then, but the printed download addresses are still valid.
    @Test func theAssetsOfAnExportCanBeDownloaded() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        func ask(_ operation: String, _ body: String) throws -> String {
            let path = "/database/1/\(container)/development/private/\(operation)?ckWebAuthToken=dev-ada"
            return String(decoding: try connection.send("POST", path, body: body).body, as: UTF8.self)
        }
        let tokenRequest = #"{"tokens":[{"recordType":"Photo","recordName":"p","fieldName":"file"}]}"#
        let place = try #require(try ask("assets/upload", tokenRequest).firstMatch(of: /"url":"([^"]+)"/)).1
        let upload = try #require(URLComponents(string: String(place))).path
        let stored = String(decoding: try connection.send("POST", upload, body: "hello").body, as: UTF8.self)
        let file = try #require(stored.firstMatch(of: /"singleFile":(\{.*\})\}/)).1
        let record = #"{"recordName":"p","recordType":"Photo","fields":{"file":{"value":\#(file)}}}"#
        _ = try ask("records/modify", #"{"operations":[{"operationType":"create","record":\#(record)}]}"#)

        let export = try zonecast("user", "export", "dev-ada")
        let address = try #require(export.output.firstMatch(of: /"downloadURL":"([^"]+)"/), "\(export.output)").1
        let fetched = try connection.send("GET", try #require(URLComponents(string: String(address))).path)
        #expect(fetched.status == 200 && String(decoding: fetched.body, as: UTF8.self) == "hello")
        #expect(relay.stop().status == 0)
    }

    /// Whether the command left neither a sign-in nor a token behind.
    private func leftNothingBehind() throws -> Bool {
        let tokens = try zonecast("token", "list").output
        return try !tokens.contains("command line")
            && zonecast("token", "list", "--kind", "session", "--user", "dev-ada").output.contains("has no sessions")
    }

    private func export(to output: Any) -> ChildProcess {
        let process = ChildProcess()
        process.executableURL = Command.program
        process.arguments = ["user", "export", "dev-ada", "--data", folder.path]
        process.environment = Command.cleanEnvironment()
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        return process
    }

    @Test func anInterruptedExportLeavesNoSignInBehind() throws {
        let relay = try RelayProcess(folder: folder.path)
        // More than a pipe's buffer holds.
        #expect(try save(try relay.connect(), 150, bytes: 1_000).status == 200)
        let full = export(to: try #require(FileHandle(forWritingAtPath: "/dev/full")))
        try full.run()
        full.waitUntilExit()
        #expect(try full.terminationStatus == 1 && leftNothingBehind())

        let unread = Pipe()
        try unread.fileHandleForReading.close()
        let cut = export(to: unread)
        try cut.run()
        cut.waitUntilExit()
        #expect(try cut.terminationStatus == 128 + SIGPIPE && leftNothingBehind())

        let slow = Pipe()
        let stopped = export(to: slow)
        try stopped.run()
        // The command has signed in when it writes, and then blocks until its output is read.
        #expect(try slow.fileHandleForReading.read(upToCount: 1)?.count == 1)
        stopped.terminate()
        stopped.waitUntilExit()
        #expect(try stopped.terminationStatus == 128 + SIGTERM && leftNothingBehind())
        #expect(relay.stop().status == 0)
    }

    @Test func missingUsersContainersAndDevicesAreReported() throws {
        #expect(try zonecast("container", "create", container).status == 0)
        for command in [["export"], ["delete", "--yes"]] {
            let run = try Command.run(["user"] + command + ["unknown@example.org", "--data", folder.path])
            #expect(run.status == 1 && run.errors.hasPrefix("zonecast: There is no user unknown@example.org in "))
        }
        let added = try zonecast("user", "create", "ada@example.org", "--password-stdin", input: "correct horse\n")
        #expect(added.status == 0)
        let nowhere = try zonecast("user", "export", "ada@example.org", "--container", "nope")
        #expect(nowhere.status == 1 && nowhere.errors.contains("There is no container nope"), "\(nowhere.errors)")
        let device = try zonecast("push", "delete", "nope")
        #expect(device.status == 1 && device.output.isEmpty && device.errors.contains("There is no device nope"))
        let nothing = try Command.run(["user", "list", "--data", ""])
        #expect(nothing.status == 2 && nothing.errors.contains("--data is empty"))
    }

    /// A shell does not expand ~ after =, and the relay must not create a folder named ~.
    @Test(arguments: [["user", "list"], ["serve", "--dev", "--listen", "127.0.0.1:0"], ["init", "--yes"]])
    func anUnexpandedTildeIsRefused(command: [String]) throws {
        let run = try Command.run(command + ["--data=~/zonecast-of-a-test"])
        #expect(
            run.status == 2 && (run.errors.contains("ome folder") || run.errors.contains("without ~")),
            "\(run.errors)"
        )
        #expect(!FileManager.default.fileExists(atPath: "~"))
    }

    @Test func quietPrintsNoConfirmation() throws {
        let added = try zonecast(
            "user",
            "create",
            "ada@example.org",
            "--password-stdin",
            "--quiet",
            input: "correct horse\n"
        )
        #expect(added.status == 0 && added.output.isEmpty)
        let changed = try zonecast("user", "edit", "ada@example.org", "--given-name", "Ada", "--quiet")
        #expect(changed.status == 0 && changed.output.isEmpty)
    }

    @Test func deletingAUserRemovesThemFromShares() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        func ask(_ user: String, _ operation: String, _ body: String) throws -> String {
            let path = "/database/1/\(container)/development/\(operation)?ckWebAuthToken=dev-\(user)"
            return String(decoding: try connection.send("POST", path, body: body).body, as: UTF8.self)
        }
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Ours"}}}]}"#
        _ = try ask("ada", "private/zones/modify", zone)
        let share = """
            {"zoneID":{"zoneName":"Ours"},"operations":[{"operationType":"create","record":{
            "recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","publicPermission":"READ_WRITE","fields":{}}}]}
            """
        let saved = try ask("ada", "private/records/modify", share)
        let link = try #require(saved.firstMatch(of: /"shortGUID":"([^"]+)"/), "\(saved)").1
        func participants() throws -> Int {
            let look = #"{"zoneID":{"zoneName":"Ours"},"records":[{"recordName":"cloudkit.zoneshare"}]}"#
            return try ask("ada", "private/records/lookup", look).matches(of: /"participantId"/).count
        }
        let alone = try participants()
        _ = try ask("bob", "public/records/accept", #"{"shortGUIDs":[{"value":"\#(link)"}]}"#)
        #expect(try ask("bob", "shared/zones/list", "{}").contains("Ours"))
        #expect(try participants() > alone)

        let deleted = try zonecast("user", "delete", "dev-bob", "--yes")
        #expect(deleted.status == 0, "\(deleted.errors)")
        #expect(try participants() == alone)
        #expect(relay.stop().status == 0)
    }

    @Test func aUserIsShownExportedAndDeleted() throws {
        struct Shown: Decodable {
            struct Place: Decodable { var container: String, bytes: Int, zones: Int }
            var user: String, signIns: Int, containers: [Place]
        }
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        #expect(try save(connection, 5).status == 200)
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Lists"}}}]}"#
        let made = "/database/1/\(container)/development/private/zones/modify?ckWebAuthToken=dev-ada"
        #expect(try connection.send("POST", made, body: zone).status == 200)
        let shown = try zonecast("user", "show", "dev-ada", "--json").json(Shown.self)
        #expect(shown.containers.map(\.container) == [container])
        #expect(shown.containers.first.map { $0.bytes > 0 && $0.zones == 2 } == true, "\(shown)")

        let place = "/database/1/\(container)/development/public"
        func ask(_ operation: String, _ body: String) throws -> String {
            let path = "\(place)/\(operation)?ckWebAuthToken=dev-ada"
            return String(decoding: try connection.send("POST", path, body: body).body, as: UTF8.self)
        }
        let name = try #require(try ask("users/caller", "{}").firstMatch(of: /"userRecordName":"([^"]+)"/)).1
        let own = #"{"recordName":"\#(name)","recordType":"Users","fields":{"motto":{"value":"my own words"}}}"#
        let post = #"{"recordName":"post","recordType":"Post","fields":{}}"#
        let saved = try ask(
            "records/modify",
            #"{"operations":[{"operationType":"forceUpdate","record":\#(own)},{"operationType":"create","record":\#(post)}]}"#
        )
        #expect(!saved.contains("serverErrorCode"), "\(saved)")

        let export = try zonecast("user", "export", "dev-ada")
        #expect(export.status == 0, "\(export.errors)")
        #expect(export.output.split(separator: "\n").count == 7 && export.errors == "7 records of dev-ada\n")
        #expect(export.output.contains(#""recordName":"n3""#) && export.output.contains("my own words"))
        #expect(export.output.contains(#""database":"public","zone":"_defaultZone","record":{"recordName":"post""#))

        #expect(try zonecast("user", "delete", "dev-ada").status == 2, "without a terminal the command needs --yes")
        // A disabled user can still be exported and deleted.
        #expect(try zonecast("user", "disable", "dev-ada").status == 0)
        #expect(try zonecast("user", "export", "dev-ada").errors == "7 records of dev-ada\n")
        #expect(try zonecast("user", "show", "dev-ada", "--json").json(Shown.self).signIns == 0, "sign-ins end")
        let deleted = try zonecast("user", "delete", "dev-ada", "--yes")
        #expect(deleted.status == 0 && deleted.output.contains("2 zones"), "\(deleted.errors)")
        // The public quota grows with the number of users, so it must drop with them.
        struct Usage: Decodable { var users: Int }
        #expect(try zonecast("container", "show", container, "--json").json(Usage.self).users == 0)
        #expect(try zonecast("user", "show", "dev-ada").status == 1)
        let left = try ask("records/lookup", #"{"records":[{"recordName":"\#(name)"}]}"#)
        #expect(left.contains(#""recordType":"Users""#) && !left.contains("my own words"), "\(left)")
        let audit = try zonecast("log", "audit", "--json").output
        #expect(audit.contains("user.export") && audit.contains("user.delete"))
        // A new user with the same name has an empty database.
        let list = "/database/1/\(container)/development/private/zones/list?ckWebAuthToken=dev-ada"
        #expect(!String(decoding: try connection.send("POST", list, body: "{}").body, as: UTF8.self).contains("Lists"))
        #expect(relay.stop().status == 0)
        #expect(try zonecast("user", "disable", "dev-ada").status == 0)
        #expect(try zonecast("user", "delete", "dev-ada", "--yes").status == 3, "no relay is running")
        #expect(try zonecast("user", "list").output.contains("disabled"), "the failed deletion left the user disabled")
        #expect(try zonecast("user", "disable", "dev-ada", "--undo").status == 0)
        let late = try zonecast("user", "export", "dev-ada")
        #expect(late.status == 3 && late.errors.contains("zonecast serve"))
    }

    @Test func sessionsAreListedAndEnded() throws {
        struct List: Decodable {
            struct Row: Decodable { var id: String }
            var sessions: [Row]
        }
        _ = try zonecast("container", "create", container)
        _ = try zonecast("user", "create", "ada@example.org", "--password-stdin", input: "correct horse\n")
        let signIn = ["user", "sign-in", "ada@example.org", "--container", container, "--data", folder.path]
        #expect(try Command.run(signIn).status == 0)
        let sessions = ["--kind", "session", "--user", "ada@example.org", "--data", folder.path]
        #expect(try Command.run(["token", "list", "--json"] + sessions).json(List.self).sessions.count == 1)
        #expect(try Command.run(signIn).status == 0)
        let listed = try Command.run(["token", "list", "--json"] + sessions).json(List.self).sessions
        let one = try #require(listed.first?.id)
        let kind = ["--kind", "session", "--data", folder.path]
        #expect(listed.count == 2 && one.count == 32)
        #expect(try Command.run(["token", "revoke", one] + kind).output == "revoked\n")
        #expect(try Command.run(["token", "revoke", one] + kind).status == 1, "it is revoked")
        #expect(try Command.run(["token", "revoke", "x"] + kind).status == 2)
        #expect(try Command.run(["token", "revoke", one] + sessions).status == 2, "an id or a user")
        #expect(
            try Command.run(["token", "list", "--json"] + sessions).json(List.self).sessions.map(\.id) == [listed[1].id]
        )
        #expect(try Command.run(["token", "revoke"] + sessions).output == "revoked  1\n")
        #expect(try Command.run(["token", "list"] + sessions).output.contains("has no sessions"))
    }

    @Test func storageAndAssetsAreCountedAndVerified() throws {
        let relay = try RelayProcess(folder: folder.path)
        #expect(try save(try relay.connect(), 2).status == 200)
        let info = try zonecast("storage", "show")
        #expect(info.status == 0 && info.output.contains(container) && info.output.contains("SQLite 3."))
        #expect(try zonecast("storage", "show", "--json").status == 0)
        let place = ["--container", container, "--data", folder.path]
        #expect(try Command.run(["asset", "list"] + place).output.hasPrefix("assets  0"))
        let verified = try Command.run(["asset", "verify", "--json"] + place)
        #expect(verified.status == 0 && verified.output.contains(#""damaged":[]"#))
        #expect(relay.stop().status == 0)
        // A file whose content does not match its name, which is a hash.
        let assets = "\(folder.path)/containers/\(container)/development.assets/ab"
        try FileManager.default.createDirectory(atPath: assets, withIntermediateDirectories: true)
        let name = "ab" + String(repeating: "0", count: 38)
        try Data("not that".utf8).write(to: URL(fileURLWithPath: "\(assets)/\(name)"))
        let wrong = try Command.run(["asset", "verify"] + place)
        #expect(wrong.status == 1 && wrong.output.contains("damaged  \(name)"))
        #expect(try Command.run(["asset", "list"] + place).output.contains("unused  1"))
    }

    @Test func aContainerIsDeletedWhileTheRelayPauses() throws {
        let relay = try RelayProcess(folder: folder.path)
        #expect(try save(try relay.connect(), 2).status == 200)
        #expect(try zonecast("container", "delete", container).status == 2)
        let deleted = try zonecast("container", "delete", container, "--yes")
        #expect(deleted.status == 0 && deleted.output.contains(".zonecastbak"), "\(deleted.errors)")
        for left in ["containers/\(container)", "container-deleted"] {
            #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/\(left)"), "\(left)")
        }
        #expect(try !zonecast("container", "list").output.contains(container))
        // The backup restores the container.
        #expect(try zonecast("backup", "restore", "latest").status == 0)
        #expect(try zonecast("container", "list").output.contains(container))
        #expect(try save(try relay.reconnect(), 2).status == 200)
        #expect(relay.stop().status == 0)
    }

    @Test func aContainerHasADisplayName() throws {
        #expect(try zonecast("container", "create", container, "--display-name", "Notes").status == 0)
        let list = { try self.zonecast("container", "list", "--json").output }
        #expect(try list().contains(#""displayName":"Notes""#))
        #expect(try zonecast("container", "edit", container, "--display-name", "Family notes").status == 0)
        #expect(try list().contains(#""displayName":"Family notes""#))
        #expect(try zonecast("container", "edit", "iCloud.none", "--display-name", "x").status == 1)
    }

    @Test func aTokenIsRotated() throws {
        struct Token: Decodable { var apiToken: String, id: String }
        _ = try zonecast("container", "create", container)
        let create = ["token", "create", "--json", "--name", "web", "--container", container, "--data", folder.path]
        let old = try Command.run(create).json(Token.self)
        let kept = try zonecast("token", "rotate", old.id, "--keep", "--json").json(Token.self)
        let new = try zonecast("token", "rotate", kept.id, "--json").json(Token.self)
        #expect(Set([old.apiToken, kept.apiToken, new.apiToken]).count == 3)
        let rows = try zonecast("token", "list").output.split(separator: "\n").dropFirst()
        #expect(rows.count == 3 && rows.allSatisfy { $0.contains("web") })
        #expect(rows.count { $0.hasSuffix("-") } == 2, "only the token that was not kept is revoked")
        #expect(try zonecast("token", "rotate", kept.id).status == 1)
    }

    @Test func aProfileSavesAddressAndToken() throws {
        let relay = try RelayProcess(folder: folder.path)
        let config = ScratchFolder()
        let own = ["XDG_CONFIG_HOME": config.path]
        let url = "http://127.0.0.1:\(relay.port)"
        let login = ["login", "--url", url, "--container", container]
        #expect(try Command.run(login, input: "nonsense\n", environment: own).status != 0)
        let saved = try Command.run(login, input: "dev-ada\n", environment: own)
        #expect(saved.status == 0 && saved.output.hasPrefix("saved  default  _"), "\(saved.errors)")
        let file = config.path + "/zonecast/profiles.json"
        let rights = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(rights == 0o600)
        let make = ["zone", "create", "Saved", "--container", container]
        #expect(try Command.run(make, environment: own).status == 0)
        // The saved token is not sent to another relay.
        let elsewhere = try Command.run(make + ["--url", "http://localhost:\(relay.port)"], environment: own)
        #expect(elsewhere.status == 4, "\(elsewhere.output)\(elsewhere.errors)")
        let unknown = try Command.run(make + ["--profile", "work"], environment: own)
        #expect(unknown.status == 2 && unknown.errors.contains("zonecast login --profile work"))
        #expect(try Command.run(["logout"], environment: own).status == 0)
        #expect(try Command.run(["logout"], environment: own).status == 1)
        #expect(relay.stop().status == 0)
    }

    @Test(arguments: ["text", "json"]) func theLogIsSearched(_ format: String) throws {
        let log = folder.path + "-log"
        defer { unlink(log) }
        let settings = ["ZONECAST_LOG_ACCESS": "true", "ZONECAST_LOG_FORMAT": format]
        let relay = try RelayProcess(folder: folder.path, environment: settings, log: log)
        let connection = try relay.connect()
        #expect(try save(connection, 1).status == 200)
        let list = "/database/1/\(container)/development/private/zones/list"
        let refused = try connection.send("POST", list, body: "{}")
        #expect(refused.status == 421)
        func lines(_ arguments: String...) throws -> [Substring] {
            try Command.run(["log", "show", "--file", log] + arguments).output.split(separator: "\n")
        }
        #expect(try lines().count >= 2)
        #expect(try lines("--errors").filter { $0.contains("zones/list") }.count == 1)
        #expect(try lines("--operation", "records/modify").count == 1)
        let id = try #require(refused.headers["x-apple-request-uuid"])
        #expect(try lines("--request", id).count == 1)
        // The log has pseudonyms of users; with the data folder, users can be found by name.
        let bobs = "/database/1/\(container)/development/private/zones/list?ckWebAuthToken=dev-bob"
        #expect(try connection.send("POST", bobs, body: "{}").status == 200)
        #expect(relay.stop().status == 0)
        for (user, operation) in [("dev-ada", "records/modify"), ("dev-bob", "zones/list")] {
            let own = try lines("--user", user, "--data", folder.path)
            #expect(own.count == 1 && own.allSatisfy { $0.contains(operation) }, "\(own)")
            let name = try #require(own.first.flatMap { LogFilter.value("user", in: String($0)) })
            #expect(name.count == 10 && name.allSatisfy(\.isHexDigit))
            #expect(try lines("--user", name) == own, "a pseudonym from the log works without the data folder")
        }
        let unknown = try Command.run(["log", "show", "--file", log, "--user", "dev-carol", "--data", folder.path])
        #expect(unknown.status == 1 && unknown.errors.contains("dev-carol"), "\(unknown.errors)")
        let text = try String(contentsOfFile: log, encoding: .utf8)
        #expect(try Command.run(["log", "show", "--operation", "zones/list"], input: text).output.contains(id))
        #expect(try Command.run(["log", "show", "--file", "/nonexistent"]).status == 1)
    }

    @Test func versionAndCompletions() throws {
        #expect(try Command.run(["version"]).output == (try Command.run(["--version"]).output))
        for shell in ["bash", "zsh", "fish"] {
            let script = try Command.run(["completions", shell])
            #expect(script.status == 0 && script.output.contains("zonecast"))
        }
        #expect(try Command.run(["completions", "tcsh"]).status == 2)
    }
}
