import Records
import Testing
import Wire

@Suite struct SchemaTextTests {
    /// Every construct once, with the comments and blanks that people use.
    static let everything = """
        -- every construct once
        DEFINE SCHEMA
            CREATE ROLE Editor;

            record type Place (
                "___recordID"   REFERENCE QUERYABLE,
                "___modTime"    TIMESTAMP QUERYABLE SORTABLE,
                name            STRING QUERYABLE SORTABLE SEARCHABLE,
                visits          INT64 SORTABLE QUERYABLE, // trailing
                rating          DOUBLE,
                spot            LOCATION QUERYABLE,
                photo           ASSET,
                thumbs          LIST<ASSET>,
                tags            LIST < STRING > QUERYABLE SEARCHABLE,
                parentPlace     REFERENCE QUERYABLE,
                secret          ENCRYPTED STRING, // private database only
                secrets         LIST<ENCRYPTED STRING>,
                blob            BYTES QUERYABLE SORTABLE,
                guess           NUMBER PREFERRED AS INT64,
                any             NUMBER QUERYABLE,
                "grant"         STRING,
                /* rights */
                GRANT WRITE TO "_creator",
                GRANT CREATE TO "_icloud",
                GRANT READ TO "_world",
                GRANT READ, CREATE TO Editor,
                GRANT WRITE TO Editor
            );
        """

    @Test func everyConstructIsParsed() throws {
        let text = SchemaText(parsing: Self.everything)
        #expect(text.issues.isEmpty)
        #expect(text.schema.roles == [Role("Editor")])
        let place = try #require(text.schema.types["Place"])
        #expect(place.fields["name"] == .init(.scalar(.string), indexes: [.queryable, .sortable, .searchable]))
        #expect(place.fields["rating"] == .init(.scalar(.double), indexes: []))
        #expect(place.fields["thumbs"]?.type == .list(.asset))
        #expect(place.fields["tags"] == .init(.list(.string), indexes: [.queryable, .searchable]))
        #expect(place.fields["secret"] == .init(.scalar(.string), isEncrypted: true))
        #expect(place.fields["secrets"] == .init(.list(.string), isEncrypted: true))
        #expect(place.fields["guess"] == .init(.scalar(.int64), indexes: [], number: .preferred))
        #expect(place.fields["any"] == .init(.scalar(.double), indexes: .queryable, number: .unspecified))
        #expect(place.fields["grant"] != nil)
        #expect(place.fields.count == 14)
        #expect(place.systemIndexes == [.recordName: .queryable, .modified: [.queryable, .sortable]])
        #expect(place.grants[Role("Editor")] == [.read, .create, .write])
        #expect(place.grants[.creator] == .write)
        #expect(text.positions[.field(type: "Place", "rating")] == TextPosition(line: 10, column: 9))
    }

    @Test func printedSchemasAreParsedAndPrintedIdentically() {
        let schema = SchemaText(parsing: Self.everything).schema
        let written = SchemaPrinter.text(of: schema)
        let again = SchemaText(parsing: written)
        #expect(again.issues.isEmpty)
        #expect(again.schema == schema)
        #expect(SchemaPrinter.text(of: again.schema) == written)
    }

    /// The format of CloudKit's exports, byte by byte.
    @Test func schemasArePrintedLikeCloudKitsExports() {
        let export = """
            DEFINE SCHEMA

                CREATE ROLE moderator;

                RECORD TYPE CD_Thing (
                    CD_entityName   STRING QUERYABLE SEARCHABLE SORTABLE,
                    "___createTime" TIMESTAMP,
                    "___createdBy"  REFERENCE QUERYABLE,
                    "___etag"       STRING,
                    "___modTime"    TIMESTAMP,
                    "___modifiedBy" REFERENCE,
                    "___recordID"   REFERENCE,
                    "grant"         INT64,
                    tags            LIST<STRING>,
                    GRANT READ, WRITE TO "_creator",
                    GRANT CREATE TO "_icloud",
                    GRANT READ, WRITE TO moderator
                );


            """
        #expect(SchemaPrinter.text(of: SchemaText(parsing: export).schema) == export)
    }

    @Test(arguments: ["DEFINE SCHEMA", "/* a */ define schema -- b", "\u{FEFF}DEFINE SCHEMA\r\n"])
    func anEmptySchemaIsValid(text: String) {
        #expect(SchemaText(parsing: text).issues.isEmpty)
        #expect(SchemaText(parsing: text).schema == Schema())
    }

    /// The error for one item in a record type, and its position.
    struct Row: Sendable, CustomTestStringConvertible {
        var item: String
        var column: Int
        var says: String
        var testDescription: String { item }
    }

    static let rows = [
        Row(item: "title STRING QUERYABEL", column: 14, says: "'QUERYABEL' is not an option"),
        Row(item: "title STRNG", column: 7, says: "found 'STRNG'"),
        Row(item: "title, b STRING", column: 6, says: "expected a type"),
        Row(item: "title ASSETID", column: 7, says: "expected a type"),
        Row(item: "photo ASSET QUERYABLE", column: 13, says: "field 'photo' cannot be QUERYABLE: assets have no index"),
        Row(item: "a ENCRYPTED STRING SORTABLE", column: 20, says: "encrypted fields have no index"),
        Row(item: "a LIST<INT64> SORTABLE", column: 15, says: "lists cannot be sorted"),
        Row(item: "a INT64 SEARCHABLE", column: 9, says: "only STRING and LIST<STRING> fields can be searched"),
        Row(item: "a STRING SORTABLE sortable", column: 19, says: "SORTABLE is repeated"),
        Row(item: "a ENCRYPTED ASSET", column: 13, says: "ASSET cannot be encrypted"),
        Row(item: "a LIST STRING", column: 8, says: "expected '<'"),
        Row(item: "a LIST<LIST<STRING>>", column: 8, says: "expected a type"),
        Row(item: "a LIST<STRING, b INT64", column: 14, says: "expected '>'"),
        Row(item: "a NUMBER PREFERRED AS STRING", column: 23, says: "INT64 or DOUBLE"),
        Row(item: "queryable STRING", column: 1, says: "queryable is a reserved word"),
        Row(item: "grant STRING", column: 7, says: "quote the name"),
        Row(item: "___modTime TIMESTAMP", column: 1, says: "must be quoted: \"___modTime\""),
        Row(item: "\"___modTime\" STRING", column: 14, says: "___modTime is always TIMESTAMP"),
        Row(item: "\"___more\" STRING", column: 1, says: "is not a system field"),
        Row(item: "\"two words\" STRING", column: 1, says: "is not a valid field name"),
        Row(item: "\"\" STRING", column: 1, says: "is not a valid field name"),
        Row(item: "9a STRING", column: 1, says: "is not a valid field name"),
        Row(item: "a STRING, a INT64", column: 11, says: "field 'a' is declared twice"),
        Row(item: "a STRING b STRING", column: 10, says: "expected ','"),
        Row(item: "a STRING,", column: 9, says: "reject a comma"),
        Row(item: "GRANT DELETE TO \"_world\"", column: 7, says: "expected READ, CREATE or WRITE"),
        Row(item: "GRANT READ \"_world\"", column: 12, says: "expected TO"),
        Row(item: "GRANT READ TO Nobody", column: 15, says: "role 'Nobody' is not declared"),
        Row(item: "GRANT READ TO _world", column: 15, says: "must be quoted"),
        Row(item: "a ÖÖ STRING", column: 3, says: "'ÖÖ' is not part of the schema language"),
        Row(item: "a STRING /* open", column: 10, says: "unterminated comment"),
        Row(item: "\"a", column: 1, says: "no closing quote"),
    ]

    @Test(arguments: rows) func anErrorInAnItemIsReportedAtItsPosition(row: Row) {
        let text = SchemaText(parsing: "DEFINE SCHEMA RECORD TYPE T (\n\(row.item)\n);")
        let place = TextPosition(line: 2, column: row.column)
        #expect(
            text.issues.contains { $0.position == place && $0.message.contains(row.says) },
            "\(text.issues.map { $0.line(inFile: "t") })"
        )
    }

    @Test func allErrorsAreReported() {
        let text = SchemaText(
            parsing: """
                CREATE ROLE "_world";
                RECORD TYPE A ( x STRIN, y STRING );
                nonsense here;
                RECORD TYPE A ( z INT64 )
                RECORD TYPE "_B" ( z INT64 );
                RECORD TYPE C ( z INT64 SEARCHABLE
                """
        )
        #expect(!text.isValid)
        #expect(
            text.issues.map { $0.line(inFile: "a.ckdb") } == [
                "a.ckdb:1:1: expected DEFINE SCHEMA at the beginning, found 'CREATE'",
                "a.ckdb:1:13: role \"_world\" is built in and cannot be created",
                "a.ckdb:2:19: expected a type, such as STRING or INT64, found 'STRIN'",
                "a.ckdb:3:1: expected RECORD TYPE or CREATE ROLE, found 'nonsense'",
                "a.ckdb:4:13: record type 'A' is declared twice",
                "a.ckdb:5:1: expected ';' after record type 'A', found 'RECORD'",
                "a.ckdb:5:13: '_B' is not a valid record type name: names that start with an underscore are reserved",
                "a.ckdb:6:25: field 'z' cannot be SEARCHABLE: only STRING and LIST<STRING> fields can be searched for words",
                "a.ckdb:6:35: expected ')' at the end of record type 'C', found the end of the text",
                "a.ckdb:6:35: expected ';' after record type 'C', found the end of the text",
            ]
        )
    }

    /// Following a message's advice must not lead to another error.
    @Test func onlyValidRolesAreSuggested() {
        func lines(_ role: String) -> [String] {
            SchemaText(parsing: "DEFINE SCHEMA RECORD TYPE T (a STRING, GRANT READ TO \(role));").issues.map(\.message)
        }
        #expect(lines("Editor") == ["role 'Editor' is not declared: add CREATE ROLE Editor;"])
        #expect(lines("\"grant\"") == ["role 'grant' is not declared: add CREATE ROLE \"grant\";"])
        #expect(
            lines("\"_everybody\"") == [
                "role '_everybody' does not exist: the system roles are _creator, _icloud and _world"
            ]
        )
        let odd = lines("\"no body\"")
        #expect(odd.count == 1 && odd[0].contains("'no body' is not a valid role name"), "\(odd)")
    }

    /// Parsing any text terminates, and a text without errors is printed and parsed again to the same schema.
    @Test(arguments: 0..<20) func mutatedTextsAreParsedOrRefused(seed: UInt64) {
        var random = Mixer(state: seed)
        let whole = Array(Self.everything.utf8)
        for _ in 0..<100 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let from = Int.random(in: 0..<bytes.count, using: &random)
                let to = min(bytes.count, from + Int.random(in: 0...20, using: &random))
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes.removeSubrange(from..<to)
                case 1: bytes.insert(contentsOf: bytes[from..<to], at: Int.random(in: 0...bytes.count, using: &random))
                default: bytes[from] = Array("\"(),;<>/*- \nA_9\u{FF}".utf8).randomElement(using: &random) ?? 0
                }
                if bytes.isEmpty { bytes = whole }
            }
            let text = SchemaText(parsing: String(decoding: bytes, as: UTF8.self))
            guard text.isValid else { continue }
            let again = SchemaText(parsing: SchemaPrinter.text(of: text.schema))
            #expect(again.issues.isEmpty && again.schema == text.schema, "seed \(seed)")
        }
    }
}

/// SplitMix64.
private struct Mixer: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
