import Records
import RelayCore
import Testing
import Wire

/// The table of SchemaLanguage.md, "Changing a schema", row by row.
@Suite struct SchemaChangeTests {
    private static func schema(_ declarations: String) -> Schema {
        SchemaText(parsing: "DEFINE SCHEMA \(declarations)").schema
    }

    private static func note(_ items: String) -> String { "RECORD TYPE Note ( \(items) );" }

    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var text: String
        var development: String
        var production = ""
        /// The refused elements; empty if the import is accepted.
        var refused: [SchemaElement] = []
    }

    static let imports = [
        Row(testDescription: "add a type", text: note("a STRING"), development: ""),
        Row(
            testDescription: "add a field, an index, a right, a role",
            text: "CREATE ROLE R;" + note("a STRING QUERYABLE, b INT64, GRANT READ TO R"),
            development: note("a STRING"),
            production: note("a STRING")
        ),
        Row(
            testDescription: "remove an index, a right, a role that nobody has",
            text: note("a STRING"),
            development: "CREATE ROLE R;" + note("a STRING QUERYABLE, GRANT READ TO R"),
            production: "CREATE ROLE R;" + note("a STRING QUERYABLE, GRANT READ TO R")
        ),
        Row(
            testDescription: "remove a field that only development has",
            text: note("a STRING"),
            development: note("a STRING, b INT64")
        ),
        Row(testDescription: "remove a type that only development has", text: "", development: note("a STRING")),
        Row(
            testDescription: "remove fields and types that production has",
            text: note("c STRING"),
            development: note("a STRING, b INT64") + "RECORD TYPE Other ( a STRING );",
            production: note("a STRING, b INT64") + "RECORD TYPE Other ( a STRING );",
            refused: [.field(type: "Note", "a"), .field(type: "Note", "b"), .type("Other")]
        ),
        Row(
            testDescription: "change types, encryption and lists",
            text: note("a INT64, b ENCRYPTED STRING, c LIST<STRING>, d STRING"),
            development: note("a STRING, b STRING, c STRING, d STRING"),
            production: note("a STRING, b STRING"),
            refused: [.field(type: "Note", "a"), .field(type: "Note", "b"), .field(type: "Note", "c")]
        ),
        Row(
            testDescription: "settle a NUMBER",
            text: note("a NUMBER PREFERRED AS INT64, b NUMBER PREFERRED AS DOUBLE"),
            development: note("a NUMBER, b NUMBER"),
            production: note("a NUMBER")
        ),
        Row(
            testDescription: "change a settled NUMBER",
            text: note("a NUMBER PREFERRED AS INT64, b NUMBER"),
            development: note("a NUMBER PREFERRED AS DOUBLE, b DOUBLE"),
            refused: [.field(type: "Note", "a"), .field(type: "Note", "b")]
        ),
        Row(
            testDescription: "leave the users out",
            text: note("a STRING"),
            development: "RECORD TYPE Users ( roles LIST<INT64> );" + note("a STRING"),
            production: "RECORD TYPE Users ( roles LIST<INT64> );"
        ),
        Row(
            testDescription: "leave the users out before development has any",
            text: note("a STRING"),
            development: note("a STRING"),
            production: "RECORD TYPE Users ( roles LIST<INT64> );" + note("a STRING")
        ),
    ]

    @Test(arguments: imports) func importsAreAcceptedOrRefusedAsAWhole(row: Row) {
        let development = Self.schema(row.development)
        let change = SchemaChange(
            importing: Self.schema(row.text),
            over: development,
            production: Self.schema(row.production)
        )
        #expect(change.violations.map(\.element) == row.refused)
        #expect(change.isAllowed == row.refused.isEmpty)
        #expect(change.result.types["Users"] == development.types["Users"])
    }

    @Test func aRoleWithMembersCannotBeRemoved() {
        var development = Self.schema("CREATE ROLE R; CREATE ROLE S;")
        development.members = [UserID("_1"): [Role("R")], UserID("_2"): [Role("R")]]
        let change = SchemaChange(importing: Schema(), over: development, production: Schema())
        #expect(change.violations.map(\.element) == [.role("R")])
        #expect(change.violations.first?.reason.contains("2 users have it in development") == true)
        #expect(change.result.members == development.members)
    }

    @Test func aRemovedFieldCanBeAddedAgainOnlyWithItsType() {
        var development = Self.schema(Self.note("a STRING"))
        development.removedFields = ["Note": ["b": .init(.scalar(.int64))], "Gone": ["c": .init(.scalar(.string))]]
        func violations(_ text: String) -> [SchemaElement] {
            SchemaChange(importing: Self.schema(text), over: development, production: Schema()).violations.map(
                \.element
            )
        }
        #expect(violations(Self.note("a STRING, b INT64")) == [])
        #expect(violations(Self.note("a STRING, b STRING")) == [.field(type: "Note", "b")])
        #expect(violations(Self.note("a STRING, b LIST<INT64>")) == [.field(type: "Note", "b")])
        let back = Self.note("a STRING") + "RECORD TYPE Gone ( c INT64 );"
        #expect(violations(back) == [.field(type: "Gone", "c")])
    }

    @Test func aPromotionListsEverythingThatWouldBeLost() {
        let development = Self.schema("CREATE ROLE R;" + Self.note("a STRING QUERYABLE, b INT64, GRANT READ TO R"))
        let first = SchemaChange(promoting: development, over: Schema())
        #expect(first.isAllowed)
        #expect(first.result.types == development.types)
        #expect(first.result.roles == development.roles)

        let production = Self.schema(Self.note("a INT64, c STRING") + "RECORD TYPE Old ( a STRING );")
        let second = SchemaChange(promoting: development, over: production)
        #expect(
            second.violations.map(\.element) == [
                .field(type: "Note", "a"), .field(type: "Note", "c"), .type("Old"),
            ]
        )
    }

    @Test func membersAndVersionAreNotPromoted() {
        var development = Self.schema("CREATE ROLE R;" + Self.note("a STRING"))
        development.members = [UserID("_1"): [Role("R")]]
        development.version = 9
        var production = Schema(version: 3)
        production.members = [UserID("_2"): []]
        let change = SchemaChange(promoting: development, over: production)
        #expect(change.result.version == 3)
        #expect(change.result.members == production.members)
    }

    @Test func aDifferenceListsEveryChange() {
        let difference = SchemaDifference(
            from: Self.schema(
                "CREATE ROLE Old;" + Self.note("a STRING SORTABLE, b INT64, GRANT READ, WRITE TO \"_world\"")
            ),
            to: Self.schema(
                "CREATE ROLE New;"
                    + Self.note(
                        #"a STRING QUERYABLE, c DOUBLE, "___modTime" TIMESTAMP QUERYABLE, GRANT READ TO "_world""#
                    )
            )
        )
        let lines = difference.changes.map { "\($0.kind) \($0.element.sentenceName) \($0.before)>\($0.after)" }
        #expect(
            lines == [
                "addRole role 'New' >",
                "removeRole role 'Old' >",
                "addIndex field '___modTime' of record type 'Note' >QUERYABLE",
                "addIndex field 'a' of record type 'Note' >QUERYABLE",
                "removeIndex field 'a' of record type 'Note' SORTABLE>",
                "removeField field 'b' of record type 'Note' INT64>",
                "addField field 'c' of record type 'Note' >DOUBLE",
                "removeRight the rights of role '_world' to record type 'Note' WRITE>",
            ]
        )
        #expect(SchemaDifference(from: Schema(version: 1), to: Schema(version: 2)).isEmpty)
    }
}
