import Foundation
import TestSupport
import Testing

/// Schema commands with a management token, against a running relay.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ManagementTests {
    private let folder = ScratchFolder()
    private static let container = "iCloud.org.example.notes"
    private static let text = """
        DEFINE SCHEMA

            RECORD TYPE Note (
                "___recordID" REFERENCE QUERYABLE,
                title         STRING QUERYABLE SORTABLE,
                GRANT WRITE TO "_creator",
                GRANT READ TO "_world"
            );

        """

    private struct Made: Decodable { var managementToken: String, id: String, expires: String? }
    private struct Report: Decodable {
        struct Change: Decodable { var kind: String, recordType: String? }
        struct Issue: Decodable { var message: String }
        var accepted: Bool, applied: Bool, changes: [Change], issues: [Issue]
    }

    private func token(_ arguments: String...) throws -> Command {
        try Command.run(["token"] + arguments + ["--kind", "management", "--data", folder.path, "--json"])
    }

    private func create(_ container: String = container, _ more: String...) throws -> Made {
        let made = try Command.run(["container", "create", container, "--data", folder.path])
        #expect([0, 5].contains(made.status))
        let arguments = [
            "token", "create", "--kind", "management", "--container", container, "--data", folder.path, "--json",
        ]
        return try Command.run(arguments + more).json(Made.self)
    }

    private func schema(_ relay: RelayProcess, _ token: String, _ arguments: String..., input: String = "") throws
        -> Command
    {
        try Command.run(
            ["schema"] + arguments + ["--container", Self.container, "--url", "http://127.0.0.1:\(relay.port)"],
            input: input,
            environment: ["ZONECAST_MANAGEMENT_TOKEN": token]
        )
    }

    @Test func aSchemaIsImportedComparedAndPromotedRemotely() throws {
        let made = try create(Self.container, "--name", "build machine", "--expires", "90d")
        #expect(made.managementToken.count == 64 && made.expires != nil)
        // The relay has neither dev nor a console: the token is enough.
        let relay = try RelayProcess(folder: folder.path, [])
        let key = made.managementToken
        let dry = try schema(relay, key, "validate", "-", "--json", input: Self.text).json(Report.self)
        #expect(dry.accepted && !dry.applied && dry.changes.contains { $0.recordType == "Note" })
        let done = try schema(relay, key, "import", "-", input: Self.text)
        #expect(done.status == 0 && done.output.contains("imported into development, "), "\(done.errors)")
        let there = try schema(relay, key, "export")
        #expect(there.output.hasPrefix("DEFINE SCHEMA") && there.output.contains("RECORD TYPE Note"))
        let here = try Command.run(["schema", "export", "--container", Self.container, "--data", folder.path])
        #expect(there.output == here.output)

        #expect(try schema(relay, key, "diff").output.contains("+ record type  Note\n"))
        #expect(try schema(relay, key, "promote", "--dry-run", "--json").json(Report.self).applied == false)
        let promoted = try schema(relay, key, "promote", "--json").json(Report.self)
        #expect(promoted.accepted && promoted.applied)
        #expect(try schema(relay, key, "export", "--environment", "production").output == there.output)
        // A field that is in production cannot be removed.
        let without = Self.text.replacing("        title         STRING QUERYABLE SORTABLE,\n", with: "")
        let refused = try schema(relay, key, "import", "-", input: without)
        #expect(refused.status == 1 && refused.errors.contains("Nothing was changed."), "\(refused.errors)")
        // A refused change has status 409; a dry run has 200 and the same answer.
        let connection = try relay.connect()
        for (query, status) in [("", 409), ("?dryRun=1", 200)] {
            let answer = try connection.send(
                "POST",
                "/management/1/\(Self.container)/development/schema\(query)",
                headers: ["Authorization": "Bearer \(key)"],
                body: without
            )
            let output = String(decoding: answer.body, as: UTF8.self)
            #expect(answer.status == status && output.contains("\"isAllowed\":false"), "\(output)")
        }
        let audit = try Command.run(["log", "audit", "--data", folder.path])
        #expect(audit.output.contains("token build machine") && audit.output.contains("schema.promote"))
        // cktool's verbs and its --token work too.
        let tool = try Command.run([
            "export-schema", "--container-id", Self.container, "--url", "http://127.0.0.1:\(relay.port)", "--token",
            key,
        ])
        #expect(tool.output == there.output)
    }

    /// The commands print the same for a data folder and for a remote relay, as text and as JSON.
    @Test func aRemoteRelayGivesTheSameOutputAsTheFolder() throws {
        let key = try create().managementToken
        let relay = try RelayProcess(folder: folder.path, [])
        func both(_ arguments: String..., input: String = "") throws -> (here: [String], there: [String]) {
            let place = ["--container", Self.container, "--data", folder.path]
            let here = try Command.run(["schema"] + arguments + place, input: input)
            let elsewhere = ["--url", "http://127.0.0.1:\(relay.port)", "--management-token", key]
            let there = try Command.run(["schema"] + arguments + place + elsewhere, input: input)
            return (
                ["\(here.status)", here.output, here.errors], ["\(there.status)", there.output, there.errors]
            )
        }
        _ = try schema(relay, key, "import", "-", input: Self.text)
        _ = try schema(relay, key, "promote")
        let more = Self.text.replacing("title  ", with: "pages INT64, title  ")
        let wrong = Self.text.replacing("title         STRING QUERYABLE SORTABLE", with: "title INT64")
        for (text, isValid) in [(Self.text, true), (more, true), (wrong, false)] {
            for json in [[], ["--json"]] {
                for verb in ["validate", "diff", "import"] where !(isValid && verb == "import") {
                    let (here, there) = try both(verb, "-", json.first ?? "--quiet", input: text)
                    #expect(here == there)
                    #expect(here[0] == (isValid || verb == "diff" ? "0" : "1"))
                }
            }
        }
        _ = try schema(relay, key, "import", "-", input: more)
        for verb in [["diff"], ["promote", "--dry-run"]] {
            let (here, there) = try both(verb[0], verb.count > 1 ? verb[1] : "--no-color")
            #expect(here == there && here[1].contains("+ field        Note.pages  INT64\n"))
        }
    }

    @Test func aTokenGrantsAccessToItsContainersSchemasOnly() throws {
        let made = try create()
        let other = try create("iCloud.org.example.other")
        let relay = try RelayProcess(folder: folder.path, ["--dev"])
        for wrong in [other.managementToken, "nonsense", String(repeating: "0", count: 64)] {
            let refused = try schema(relay, wrong, "export")
            #expect(refused.status == 4 && refused.errors.contains("zonecast token create --kind management"))
        }
        #expect(try schema(relay, "", "export").status == 2)
        let connection = try relay.connect()
        func status(_ method: String, _ path: String, _ key: String?) throws -> HTTPConnection.Answer {
            let headers = key.map { ["Authorization": "Bearer \($0)"] } ?? [:]
            return try connection.send(
                method,
                "/management/1/\(path)",
                headers: headers,
                body: method == "POST" ? Self.text : ""
            )
        }
        let place = "\(Self.container)/development/schema"
        #expect(try status("GET", place, nil).status == 401)
        // Only the Authorization header counts: an address would appear in logs and histories.
        #expect(try status("GET", place + "?token=\(made.managementToken)", nil).status == 401)
        let answer = try status("GET", place, made.managementToken)
        #expect(answer.status == 200 && answer.headers["access-control-allow-origin"] == nil)
        for path in ["\(Self.container)/production/schema", "\(Self.container)/production/schema/difference"] {
            #expect(try status("POST", path, made.managementToken).status == 405, "\(path)")
        }
        for path in ["\(Self.container)/development/records", "\(Self.container)/development", "x/y/z", ""] {
            #expect(try status("GET", path, made.managementToken).status == 404, "\(path)")
        }
        // The token does not open the console.
        let bearer = ["Authorization": "Bearer \(made.managementToken)", "X-Zonecast-Console": "1"]
        #expect(try connection.send("GET", "/console/api/overview", headers: bearer).status == 401)
    }

    @Test func tokensAreListedRotatedAndRevoked() throws {
        let made = try create()
        let relay = try RelayProcess(folder: folder.path, [])
        #expect(try token("list").output.contains(made.id) && !token("list").output.contains(made.managementToken))
        #expect(!(try token("list").output.contains(#""used""#)))
        #expect(try schema(relay, made.managementToken, "export").status == 0)
        #expect(try token("list").output.contains(#""used":"#))
        let next = try token("rotate", made.id).json(Made.self)
        #expect(next.expires == made.expires)
        #expect(try schema(relay, made.managementToken, "export").status == 4)
        #expect(try schema(relay, next.managementToken, "export").status == 0)
        #expect(try token("revoke", next.id).status == 0)
        #expect(try schema(relay, next.managementToken, "export").status == 4)
        #expect(try token("rotate", next.id).status == 1)
        #expect(try token("revoke", "none").status == 1)
        #expect(try token("create", "--container", "iCloud.org.example.none").status == 1)
        let files = try #require(FileManager.default.enumerator(atPath: folder.path)).compactMap { $0 as? String }
        for file in files where file.hasPrefix("relay.sqlite") {
            let content = FileManager.default.contents(atPath: "\(folder.path)/\(file)") ?? Data()
            #expect(content.firstRange(of: Data(next.managementToken.utf8)) == nil, "\(file) has the token itself")
        }
    }

    @Test func guessingTokensIsRateLimited() throws {
        _ = try create()
        let relay = try RelayProcess(folder: folder.path, [])
        let connection = try relay.connect()
        let path = "/management/1/\(Self.container)/development/schema"
        let statuses = try (0..<40).map { number in
            try connection.send("GET", path, headers: ["Authorization": "Bearer \(number)"]).status
        }
        #expect(statuses.prefix(20).allSatisfy { $0 == 401 } && statuses.contains(429))
    }
}
