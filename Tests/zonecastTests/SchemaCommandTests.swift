import Foundation
import TestSupport
import Testing

/// The schema commands as a script calls them, with and without a relay that runs.
@Suite(.ownThread, .serialized) struct SchemaCommandTests {
    let folder = ScratchFolder()
    private let container = "iCloud.org.example.notes"

    private func zonecast(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(arguments + ["--container", container, "--data", folder.path], input: input)
    }

    private func makeContainer() throws {
        _ = try Command.run(["container", "create", container, "--data", folder.path])
    }

    private struct Report: Decodable {
        struct Issue: Decodable { var line: Int?, column: Int?, message: String }
        struct Change: Decodable { var kind: String, recordType: String?, field: String?, after: String? }
        var accepted: Bool
        var applied: Bool
        var changes: [Change]
        var issues: [Issue]
    }

    private struct Answer: Decodable {
        struct Item: Decodable { var recordName: String?, serverErrorCode: String?, reason: String? }
        var records: [Item]?
        var reason: String?
    }

    private static let notes = """
        DEFINE SCHEMA

            CREATE ROLE Editor;

            RECORD TYPE Note (
                "___createTime" TIMESTAMP,
                "___createdBy"  REFERENCE,
                "___etag"       STRING,
                "___modTime"    TIMESTAMP,
                "___modifiedBy" REFERENCE,
                "___recordID"   REFERENCE QUERYABLE,
                body            STRING,
                title           STRING QUERYABLE,
                GRANT READ, CREATE, WRITE TO Editor,
                GRANT READ TO "_world"
            );


        """

    @Test func aTextGoesInAndComesOutTheSame() throws {
        let early = try zonecast("schema", "export")
        #expect(early.status == 1)
        try makeContainer()
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
        let imported = try zonecast("schema", "import", "--file", "-", "--json", input: Self.notes)
        #expect(imported.status == 0)
        #expect(try imported.json(Report.self).applied)
        #expect(try zonecast("schema", "export").output == Self.notes)
        #expect(try zonecast("schema", "export", "--environment", "production").output == "DEFINE SCHEMA\n\n")
        #expect(try zonecast("export-schema", "--team-id", "T").output == Self.notes)
        let again = try zonecast("import-schema", "--validate", "--file", "-", "--json", input: Self.notes)
        #expect(try again.json(Report.self).changes.isEmpty)
        let wrong = try zonecast("schema", "import", "--environment", "production", "--file", "-", input: Self.notes)
        #expect(wrong.status == 2)
        #expect(wrong.complaint.contains("zonecast schema promote"))
    }

    @Test func aTextIsRefusedAsAWholeWithAllThatIsWrong() throws {
        try makeContainer()
        let broken = "DEFINE SCHEMA RECORD TYPE A ( a STRIN,\n b INT64 SEARCHABLE );"
        let refused = try zonecast("schema", "import", "--file", "-", input: broken)
        #expect(refused.status == 1)
        let lines = refused.complaint.split(separator: "\n")
        #expect(lines.first?.hasPrefix("standard input:1:33: expected a type") == true, "\(lines)")
        #expect(lines.dropFirst().first?.hasPrefix("standard input:2:10: field 'b' cannot be SEARCHABLE") == true)
        #expect(lines.last == "zonecast: The schema was refused as a whole, for 2 reasons. Nothing was changed.")

        _ = try zonecast("schema", "import", "--file", "-", input: Self.notes)
        #expect(try zonecast("schema", "promote").status == 0)
        let other = "DEFINE SCHEMA RECORD TYPE Note ( title INT64 ); RECORD TYPE More ( a STRING );"
        for verb in ["import", "validate"] {
            let refused = try zonecast("schema", verb, "--file", "-", "--json", input: other)
            #expect(refused.status == 1)
            let report = try refused.json(Report.self)
            #expect(!report.accepted && !report.applied)
            #expect(
                report.issues.map(\.message) == [
                    "field 'body' of record type 'Note' is in production and cannot be removed",
                    "field 'title' of record type 'Note' cannot become INT64: it is STRING in production, where types never change",
                ]
            )
            #expect(report.issues.last?.column == 34)
        }
        #expect(try zonecast("schema", "export").output == Self.notes)
    }

    @Test func whatIsPromotedIsShownFirst() throws {
        try makeContainer()
        _ = try zonecast("schema", "import", "--file", "-", input: Self.notes)
        let shown = try zonecast("schema", "promote", "--dry-run", "--json").json(Report.self)
        #expect(shown.accepted && !shown.applied)
        #expect(
            shown.changes.contains { $0.kind == "addField" && $0.field == "title" && $0.after == "STRING QUERYABLE" }
        )
        #expect(try zonecast("schema", "export", "--environment", "production").output == "DEFINE SCHEMA\n\n")
        #expect(try zonecast("schema", "diff").output.contains("+ field        Note.title  STRING QUERYABLE\n"))
        #expect(try zonecast("deploy-schema").status == 0)
        #expect(try zonecast("schema", "export", "--environment", "production").output == Self.notes)
        #expect(try zonecast("schema", "diff").output == "production and development are the same\n")
    }

    // MARK: Beside a running relay

    /// What is asked of a relay elsewhere, or of production, must not be done to development's records here.
    @Test func aToolsResetOfAnotherPlaceLeavesThisOneAlone() throws {
        try makeContainer()
        _ = try zonecast("schema", "import", "--file", "-", input: Self.notes)
        let elsewhere = try zonecast("reset-schema", "--url", "https://sync.example.org", "--token", "t")
        #expect(elsewhere.status == 2)
        #expect(elsewhere.complaint.contains("without --url"), "\(elsewhere.complaint)")
        let production = try zonecast("reset-schema", "--environment", "production")
        #expect(production.status == 2)
        #expect(production.complaint.contains("development"), "\(production.complaint)")
        #expect(try zonecast("schema", "export").output == Self.notes)
        let here = try zonecast("reset-schema", "--team-id", "T", "--token", "t", "--environment", "development")
        #expect(here.status == 0)
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
    }

    @Test func ofTwoTextsNoneIsTaken() throws {
        try makeContainer()
        let two = try zonecast("schema", "import", "schema.ckdb", "--file", "-", input: Self.notes)
        #expect(two.status == 2)
        #expect(two.complaint.contains("schema.ckdb or -"), "\(two.complaint)")
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
    }

    private func modify(
        _ connection: HTTPConnection,
        _ environment: String,
        as user: String = "alice",
        _ name: String,
        _ fields: String,
        type: String = "Note"
    ) throws -> Answer.Item? {
        let body =
            #"{"operations":[{"operationType":"create","record":{"recordName":"\#(name)","recordType":"\#(type)","fields":\#(fields)}}]}"#
        let target = "/database/1/\(container)/\(environment)/public/records/modify?ckWebAuthToken=dev-\(user)"
        let answer = try connection.send("POST", target, body: body).json(Answer.self)
        return answer.records?.first
    }

    private func query(_ connection: HTTPConnection, _ filter: String) throws -> Answer {
        let target = "/database/1/\(container)/development/public/records/query?ckWebAuthToken=dev-alice"
        let body = #"{"query":{"recordType":"Note","filterBy":[\#(filter)]}}"#
        return try connection.send("POST", target, body: body).json(Answer.self)
    }

    @Test func aRunningRelayGoesByWhatTheCommandLineChanges() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        // Made by being saved, for whoever is signed in.
        #expect(try modify(connection, "development", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        let grown = try zonecast("schema", "export").output
        #expect(grown.contains("title           STRING QUERYABLE SEARCHABLE SORTABLE"))
        #expect(try modify(connection, "production", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "NOT_FOUND")

        #expect(try zonecast("schema", "import", "--file", "-", input: Self.notes).status == 0)
        // The very next write is decided by the new schema, though it was made ready under the old one.
        #expect(
            try modify(connection, "development", "b", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "ACCESS_DENIED"
        )
        #expect(try zonecast("role", "give", "Writer", "dev-alice").complaint.contains("Its roles: Editor"))
        #expect(try zonecast("role", "give", "Editor", "dev-alice").status == 0)
        #expect(try modify(connection, "development", "c", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        let bob = try modify(connection, "development", as: "bob", "d", #"{"title":{"value":"x"}}"#)
        #expect(bob?.serverErrorCode == "ACCESS_DENIED")
        // A field that development does not have yet is declared with the record that brings it.
        #expect(try modify(connection, "development", "e", #"{"more":{"value":1}}"#)?.serverErrorCode == nil)
        #expect(try zonecast("schema", "export").output.contains("more            INT64 QUERYABLE SORTABLE"))

        let title = #"{"fieldName":"title","comparator":"EQUALS","fieldValue":{"value":"x"}}"#
        #expect(try query(connection, title).records?.count == 2)
        let body = #"{"fieldName":"body","comparator":"EQUALS","fieldValue":{"value":"x"}}"#
        #expect(
            try query(connection, body).reason
                == "Field 'body' is not marked queryable. zonecast schema diff shows the missing index; "
                + "console: Schema > Indexes."
        )

        // A query is read by the new schema too: a number without a tag is a moment where the field is one.
        let dated = Self.notes.replacingOccurrences(
            of: "title           STRING",
            with: "due TIMESTAMP QUERYABLE, title STRING"
        )
        #expect(try zonecast("schema", "import", "--file", "-", input: dated).status == 0)
        let due = #"{"fieldName":"due","comparator":"EQUALS","fieldValue":{"value":1}}"#
        #expect(try query(connection, due).records?.isEmpty == true)

        #expect(try zonecast("schema", "promote").status == 0)
        let unknown = try modify(connection, "production", "a", #"{"text":{"value":"x"}}"#)
        #expect(unknown?.serverErrorCode == "ACCESS_DENIED", "the roles of development are not those of production")
        #expect(try zonecast("role", "give", "Editor", "dev-alice", "--environment", "production").status == 0)
        #expect(try modify(connection, "production", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        #expect(try modify(connection, "production", "b", #"{"text":{"value":"x"}}"#)?.serverErrorCode == "BAD_REQUEST")

        #expect(try zonecast("role", "take", "Editor", "dev-alice").status == 0)
        #expect(
            try modify(connection, "development", "f", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "ACCESS_DENIED"
        )
        #expect(try zonecast("role", "list").output.contains("No user has a role"))
    }

    @Test func aResetWantsTheRelayStopped() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        #expect(try modify(connection, "development", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        let refused = try zonecast("schema", "reset")
        #expect(refused.status == 5)
        #expect(refused.complaint.contains("Stop it"))
        #expect(try query(connection, "").records?.count == 1)
        _ = relay.stop()
        let unasked = try zonecast("schema", "reset")
        #expect(unasked.status == 2)
        #expect(unasked.complaint.contains("in development. Add --yes to confirm without a terminal."))
        #expect(try zonecast("schema", "export").output.contains("Note"))
        #expect(try zonecast("schema", "reset", "--yes").status == 0)
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
        let restarted = try RelayProcess(folder: folder.path)
        let second = try restarted.connect()
        #expect(try query(second, "").reason?.contains("Did not find record type: Note") == true)
        #expect(try modify(second, "development", "a", #"{"title":{"value":1}}"#)?.serverErrorCode == nil)
        #expect(restarted.stop().status == 0)
    }
}
