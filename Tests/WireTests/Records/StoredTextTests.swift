import Records
import Testing
import Wire

/// What a client wrote is stored as it stands where that is what the relay writes, and written anew where it is not.
@Suite struct StoredTextTests {
    private struct Row: Sendable {
        var member: String
        var type: FieldType
        var stored: String
    }

    private static let rows: [Row] = [
        Row(
            member: #""a":{"value":"é/😀","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"é/😀","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":"","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":-42,"type":"INT64"}"#,
            type: .scalar(.int64),
            stored: #""a":{"value":-42,"type":"INT64"}"#
        ),
        Row(
            member: #""a":{"value":1,"type":"TIMESTAMP"}"#,
            type: .scalar(.timestamp),
            stored: #""a":{"value":1,"type":"TIMESTAMP"}"#
        ),
        // Escapes, where none are needed and where they are.
        Row(
            member: #""a":{"value":"\u0041","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"A","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":"\/","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"/","type":"STRING"}"#
        ),
        Row(
            member: #""\u0061":{"value":"x","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"\u0076alue":"x","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":"x","type":"\u0053TRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        // Blanks, another order, more members.
        Row(
            member: #""a": {"value":"x","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value": "x","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":"x","type":"STRING" }"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"type":"STRING","value":"x"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(member: #""a":{"value":"x"}"#, type: .scalar(.string), stored: #""a":{"value":"x","type":"STRING"}"#),
        Row(
            member: #""a":{"value":"x","type":"STRING","b":null}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"b":1,"value":"x","type":"STRING"}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        Row(
            member: #""a":{"value":"x","type":"STRING","isEncrypted":false}"#,
            type: .scalar(.string),
            stored: #""a":{"value":"x","type":"STRING"}"#
        ),
        // Numbers that are written otherwise.
        Row(
            member: #""a":{"value":-0,"type":"INT64"}"#,
            type: .scalar(.int64),
            stored: #""a":{"value":0,"type":"INT64"}"#
        ),
        Row(
            member: #""a":{"value":"42","type":"INT64"}"#,
            type: .scalar(.int64),
            stored: #""a":{"value":42,"type":"INT64"}"#
        ),
        Row(
            member: #""a":{"value":true,"type":"INT64"}"#,
            type: .scalar(.int64),
            stored: #""a":{"value":1,"type":"INT64"}"#
        ),
        Row(
            member: #""a":{"value":42,"type":"INT64"}"#,
            type: .scalar(.double),
            stored: #""a":{"value":42.0,"type":"DOUBLE"}"#
        ),
        Row(
            member: #""a":{"value":1,"type":"TIMESTAMP","exactSeconds":-978307199.9990001}"#,
            type: .scalar(.timestamp),
            stored: #""a":{"value":1,"type":"TIMESTAMP","exactSeconds":-978307199.9990001}"#
        ),
    ]

    private static func entry(_ row: Row) throws -> FieldsJSON.Entry {
        let text = #"{"recordType":"T","fields":{"# + row.member + "}}"
        let record = try RecordInput(JSONDocument(parsing: Array(text.utf8)).root)
        let field = try #require(record.fields.first)
        let value = try FieldCodec.read(try #require(field.value), as: row.type)
        return field.entry(
            FieldCodec.refine(value, by: field.exactSeconds),
            as: row.type,
            isEncrypted: false
        )
    }

    @Test(arguments: rows.indices) func itIsWhatTheRelayWrites(_ index: Int) throws {
        let row = Self.rows[index]
        let entry = try Self.entry(row)
        #expect(String(decoding: FieldsJSON.encode([entry]), as: UTF8.self) == "{\(row.stored)}")
        let anew = FieldsJSON.Entry(name: entry.name, value: entry.value)
        #expect(FieldsJSON.encode([anew]) == FieldsJSON.encode([entry]))
        let merged = try FieldsJSON.merge(
            [entry],
            clearing: ["c"],
            into: Array(
                #"{"b":{"value":1,"type":"INT64"},"a":{"value":2,"type":"INT64"},"c":{"value":3,"type":"INT64"}}"#.utf8
            )
        )
        #expect(String(decoding: merged, as: UTF8.self) == #"{"b":{"value":1,"type":"INT64"},\#(row.stored)}"#)
    }

    @Test func aValueThatIsChangedIsWrittenAnew() throws {
        var entry = try Self.entry(Self.rows[0])
        entry.value = .string("other")
        #expect(
            String(decoding: FieldsJSON.encode([entry]), as: UTF8.self) == #"{"a":{"value":"other","type":"STRING"}}"#
        )
    }

    @Test func whatIsEncryptedSaysSo() throws {
        let text = #"{"fields":{"a":{"value":"x","type":"STRING"}}}"#
        let record = try RecordInput(JSONDocument(parsing: Array(text.utf8)).root)
        let field = try #require(record.fields.first)
        let entry = field.entry(.string("x"), as: .scalar(.string), isEncrypted: true)
        #expect(
            String(decoding: FieldsJSON.encode([entry]), as: UTF8.self)
                == #"{"a":{"value":"x","type":"STRING","isEncrypted":true}}"#
        )
    }
}
