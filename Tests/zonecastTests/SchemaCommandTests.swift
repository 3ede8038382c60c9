import Foundation
import TestSupport
import Testing

/// The schema commands as a script calls them, with and without a running relay.
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

    @Test func anImportedSchemaIsExportedUnchanged() throws {
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
        #expect(wrong.errors.contains("zonecast schema promote"))
    }

    @Test func anInvalidSchemaIsRefusedAsAWholeWithAllErrors() throws {
        try makeContainer()
        let broken = "DEFINE SCHEMA RECORD TYPE A ( a STRIN,\n b INT64 SEARCHABLE );"
        let refused = try zonecast("schema", "import", "--file", "-", input: broken)
        #expect(refused.status == 1)
        let lines = refused.errors.split(separator: "\n")
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

    @Test func aDryRunShowsWhatPromotionWouldChange() throws {
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

    // MARK: With a running relay

    /// A reset of a remote relay or of production must not reset the local development schema.
    @Test func aResetOfARemoteRelayOrOfProductionIsRefused() throws {
        try makeContainer()
        _ = try zonecast("schema", "import", "--file", "-", input: Self.notes)
        let elsewhere = try zonecast("reset-schema", "--url", "https://sync.example.org", "--token", "t")
        #expect(elsewhere.status == 2)
        #expect(elsewhere.errors.contains("without --url"), "\(elsewhere.errors)")
        let production = try zonecast("reset-schema", "--environment", "production")
        #expect(production.status == 2)
        #expect(production.errors.contains("development"), "\(production.errors)")
        #expect(try zonecast("schema", "export").output == Self.notes)
        let here = try zonecast("reset-schema", "--team-id", "T", "--token", "t", "--environment", "development")
        #expect(here.status == 0)
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
    }

    @Test func twoSchemaFilesAreRefused() throws {
        try makeContainer()
        let two = try zonecast("schema", "import", "schema.ckdb", "--file", "-", input: Self.notes)
        #expect(two.status == 2)
        #expect(two.errors.contains("schema.ckdb or -"), "\(two.errors)")
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

    @Test func aRunningRelayUsesSchemasAndRolesChangedByCommands() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        // Development declares the type and grants rights on it with the first save.
        #expect(try modify(connection, "development", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        let grown = try zonecast("schema", "export").output
        #expect(grown.contains("title           STRING QUERYABLE SEARCHABLE SORTABLE"))
        #expect(try modify(connection, "production", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "NOT_FOUND")

        #expect(try zonecast("schema", "import", "--file", "-", input: Self.notes).status == 0)
        // The next write is decided with the new schema, although it was prepared with the old one.
        #expect(
            try modify(connection, "development", "b", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "ACCESS_DENIED"
        )
        #expect(try zonecast("user", "role", "grant", "Writer", "dev-alice").errors.contains("Its roles: Editor"))
        #expect(try zonecast("user", "role", "grant", "Editor", "dev-alice").status == 0)
        #expect(try modify(connection, "development", "c", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        let bob = try modify(connection, "development", as: "bob", "d", #"{"title":{"value":"x"}}"#)
        #expect(bob?.serverErrorCode == "ACCESS_DENIED")
        // Development declares a new field with the first record that has it.
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

        // Queries are read with the new schema too: a number without a type is a date if the field holds dates.
        let dated = Self.notes.replacingOccurrences(
            of: "title           STRING",
            with: "due TIMESTAMP QUERYABLE, title STRING"
        )
        #expect(try zonecast("schema", "import", "--file", "-", input: dated).status == 0)
        let due = #"{"fieldName":"due","comparator":"EQUALS","fieldValue":{"value":1}}"#
        #expect(try query(connection, due).records?.isEmpty == true)

        #expect(try zonecast("schema", "promote").status == 0)
        let unknown = try modify(connection, "production", "a", #"{"text":{"value":"x"}}"#)
        #expect(unknown?.serverErrorCode == "ACCESS_DENIED", "production does not use development's role members")
        #expect(try zonecast("user", "role", "grant", "Editor", "dev-alice", "--environment", "production").status == 0)
        #expect(try modify(connection, "production", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        #expect(try modify(connection, "production", "b", #"{"text":{"value":"x"}}"#)?.serverErrorCode == "BAD_REQUEST")

        #expect(try zonecast("user", "role", "revoke", "Editor", "dev-alice").status == 0)
        #expect(
            try modify(connection, "development", "f", #"{"title":{"value":"x"}}"#)?.serverErrorCode == "ACCESS_DENIED"
        )
        #expect(try zonecast("user", "role", "list").output.contains("No user has a role"))
    }

    @Test func aRunningRelayPausesForAReset() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        #expect(try modify(connection, "development", "a", #"{"title":{"value":"x"}}"#)?.serverErrorCode == nil)
        #expect(try query(connection, "").records?.count == 1)
        let unconfirmed = try zonecast("schema", "reset")
        #expect(unconfirmed.status == 2)
        #expect(unconfirmed.errors.contains("in development. Add --yes to confirm without a terminal."))
        #expect(try zonecast("schema", "export").output.contains("Note"))
        #expect(try zonecast("schema", "reset", "--yes").status == 0)
        #expect(try zonecast("schema", "export").output == "DEFINE SCHEMA\n\n")
        let second = try relay.reconnect()
        #expect(try query(second, "").reason?.contains("Did not find record type: Note") == true)
        #expect(try modify(second, "development", "a", #"{"title":{"value":1}}"#)?.serverErrorCode == nil)
        #expect(relay.stop().status == 0)
    }
}
