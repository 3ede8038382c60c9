import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayGateways
import Wire
import ZoneKit

/// One parser of untrusted bytes, with the invariants that must hold for every input.
package struct FuzzTarget: Sendable {
    package let name: String
    /// Valid inputs to start from.
    ///
    /// The saved corpus adds unusual ones.
    package let seeds: [[UInt8]]
    /// Words that have a meaning in the input format.
    package let words: [String]
    /// Creates the state that all inputs of a run share, such as a relay.
    ///
    /// Called once.
    package let prepare: @Sendable () async throws -> Probe

    /// Reads one input.
    package typealias Probe = @Sendable (_ input: [UInt8]) async -> Finding

    package init(
        _ name: String,
        seeds: [String],
        bytes: [[UInt8]] = [],
        words: [String] = [],
        prepare: @escaping @Sendable () async throws -> Probe
    ) {
        self.name = name
        self.seeds = seeds.map { Array($0.utf8) } + bytes
        self.words = words
        self.prepare = prepare
    }

    /// Creates a target that needs no shared state.
    init(
        _ name: String,
        seeds: [String],
        bytes: [[UInt8]] = [],
        words: [String] = [],
        probe: @escaping @Sendable ([UInt8]) -> Finding
    ) {
        self.init(name, seeds: seeds, bytes: bytes, words: words) { { input in probe(input) } }
    }

    package static let all: [FuzzTarget] = texts + queries + tokens + streams + requests + addresses + consoles
}

/// The result of one input.
package struct Finding: Hashable, Sendable {
    /// A short summary of what the parser did.
    ///
    /// An input with a new outcome joins the pool for further mutation.
    package var outcome: String
    /// The violated invariant; `nil` if there is none.
    package var objection: String?

    package init(_ outcome: String, objection: String? = nil) {
        self.outcome = outcome
        self.objection = objection
    }

    /// Adds an error text to the outcome, without numbers and quoted parts.
    init(_ outcome: String, gist sentence: String) {
        let plain = sentence.split(whereSeparator: { "'\"".contains($0) }).enumerated()
            .filter { $0.offset.isMultiple(of: 2) }.map { $0.element.filter { !$0.isNumber } }.joined()
        self.init(outcome + " " + plain.prefix(50))
    }
}

/// Parsers of whole texts.
extension FuzzTarget {
    static let texts: [FuzzTarget] = [json, schema, predicate, storedFields, engineState, relayAnswer]

    /// The strict JSON parser of all request bodies.
    ///
    /// Foundation must accept what it accepts, with the same meaning.
    private static let json = FuzzTarget(
        "json",
        seeds: [
            #"{"a":[1,-2.5e3,"x\u00e9\n",true,false,null,{}],"b":{"c":[]}}"#, #"[0,1,9007199254740993,-0.0]"#, #""""#,
            #"{"records":[{"recordName":"n","fields":{"t":{"value":"😀"}}}]}"#,
        ],
        words: ["\"a\":", "\\u", "1e", "[[[[", "{\"a\":{\"a\":"]
    ) { input in
        guard let root = try? JSONDocument(parsing: input).root else { return Finding("refused") }
        var writer = JSONWriter()
        var depth = 0
        do {
            try copy(root, to: &writer, depth: 1, deepest: &depth)
        } catch {
            return Finding("unreadable", objection: "an accepted text cannot be read: \(error)")
        }
        if depth > 32 { return Finding("deep", objection: "\(depth) levels were taken") }
        guard let theirs = normal(input) else {
            // Foundation refuses numbers that exceed a double. Our parser refuses them only when the caller reads them.
            let hasGreat = input.contains(UInt8(ascii: "e")) || input.contains(UInt8(ascii: "E")) || input.count > 300
            return Finding("alone", objection: hasGreat ? nil : "Foundation refuses an accepted text")
        }
        guard let again = normal(writer.bytes) else {
            return Finding("bad copy", objection: "the rewritten text is not JSON")
        }
        return Finding("taken \(depth)", objection: theirs == again ? nil : "the rewritten text has another meaning")
    }

    /// What Foundation reads from a text, in one canonical form.
    private static func normal(_ text: [UInt8]) -> Data? {
        guard let value = try? JSONSerialization.jsonObject(with: Data(text), options: .fragmentsAllowed) else {
            return nil
        }
        return try? JSONSerialization.data(withJSONObject: value, options: [.sortedKeys, .fragmentsAllowed])
    }

    private static func copy(_ value: JSONValue, to writer: inout JSONWriter, depth: Int, deepest: inout Int) throws {
        if value.isObject || value.isArray { deepest = max(deepest, depth) }
        if value.isObject {
            let members = try value.members()
            writer.open(UInt8(ascii: "{"))
            for (name, member) in members {
                writer.key(name)
                try copy(member, to: &writer, depth: depth + 1, deepest: &deepest)
            }
            writer.close(UInt8(ascii: "}"))
        } else if value.isArray {
            writer.open(UInt8(ascii: "["))
            for element in try value.elements() {
                try copy(element, to: &writer, depth: depth + 1, deepest: &deepest)
            }
            writer.close(UInt8(ascii: "]"))
        } else if value.isString {
            writer.string(try value.string())
        } else {
            writer.raw(Array(value.rawBytes))
        }
    }

    /// The schema language.
    ///
    /// A valid schema is printed and parsed again, and must be the same.
    private static let schema = FuzzTarget(
        "schema",
        seeds: [
            """
            DEFINE SCHEMA
                CREATE ROLE editors;
                RECORD TYPE Note (
                    "___createTime" TIMESTAMP QUERYABLE SORTABLE,
                    "___recordID" REFERENCE QUERYABLE,
                    title STRING QUERYABLE SEARCHABLE SORTABLE,
                    tags LIST<STRING> QUERYABLE,
                    secret ENCRYPTED STRING,
                    place LOCATION QUERYABLE SORTABLE,
                    file ASSET, owner REFERENCE, size INT64, rate DOUBLE, raw BYTES,
                    GRANT WRITE TO "_creator",
                    GRANT READ, CREATE TO "_icloud",
                    GRANT READ TO "_world"
                );
            """,
            "DEFINE SCHEMA RECORD TYPE \"Ü ber\" ( \"a b\" LIST<DOUBLE> );",
        ],
        words: [
            "DEFINE", "SCHEMA", "RECORD", "TYPE", "GRANT", "READ", "WRITE", "CREATE", "TO", "ROLE", "LIST<", "STRING",
            "INT64", "NUMBER(int64)", "OBJECT", "PREFERRED", "AS", "ENCRYPTED", "QUERYABLE", "--", "//", "/*", "*/",
            ";",
        ]
    ) { input in
        let text = String(decoding: input, as: UTF8.self)
        let read = SchemaText(parsing: text)
        guard read.isValid else {
            return Finding("issues \(min(read.issues.count, 4))", gist: read.issues.first?.message ?? "")
        }
        let printed = SchemaPrinter.text(of: read.schema)
        let again = SchemaText(parsing: printed)
        guard again.isValid else {
            return Finding("print", objection: "own print refused: \(again.issues.first.map { "\($0)" } ?? "")")
        }
        let isSame = again.schema.types == read.schema.types && again.schema.roles == read.schema.roles
        return Finding(
            "valid \(min(read.schema.types.count, 3))",
            objection: isSame ? nil : "the printed text is another schema"
        )
    }

    /// The format language of predicates, with arguments of every kind.
    private static let predicate = FuzzTarget(
        "predicate",
        seeds: [
            "title BEGINSWITH 'a' AND count > 3", "modificationDate > %@", "%K == %@ AND NOT (a IN {1, 2, 3})",
            "distanceToLocation:fromLocation:(place, %@) < 100.5", "self CONTAINS 'words of it'",
            "ANY tags IN {'a', \"b\"} OR title LIKE[cd] 'x*?'", "n BETWEEN {1, 2} && !(x = nil)", "TRUEPREDICATE",
            String(repeating: "NOT ", count: 4_000) + "a = 1", String(repeating: "(", count: 16_000),
            "title MATCHES '[a-z]+' || %d < n", "created >= CAST(0, 'NSDate')", "x = -1.5e3 AND y != YES",
        ],
        words: [
            "AND", "OR", "NOT", "IN", "BETWEEN", "CONTAINS[cd]", "BEGINSWITH", "ENDSWITH", "LIKE", "MATCHES",
            "TOKENMATCHES", "ANY", "ALL", "NONE", "SELF", "CAST(", "NULL", "%K", "%@", "%d", "%lld", "%f", "==", "!=",
            "<=", "&&", "||", "!", "title", "allTokens", "'%'", "{", "}",
        ]
    ) { input in
        let text = String(decoding: input, as: UTF8.self)
        let record = CKRecord(recordType: "Note")
        record["title"] = "abc"
        record["n"] = 3
        record["tags"] = ["a", "b"]
        let place = CLLocation(latitude: 1, longitude: 2)
        let arguments: [Any] = ["title", 3, place, Date(timeIntervalSince1970: 5), ["a", "b"], NSNull(), 1.5, record]
        let predicate = NSPredicate(format: text, argumentArray: arguments)
        let inMemory = predicate.evaluate(with: record)
        do throws(CKError) {
            let query = try CKQuery(recordType: "Note", predicate: predicate).query()
            return Finding("asked \(min(query?.filters.count ?? -1, 4)) \(inMemory)")
        } catch {
            let why = error.localizedDescription
            if why.isEmpty { return Finding("refused", objection: "refused without a reason") }
            return Finding("refused \(inMemory)", gist: why.replacing(text, with: ""))
        }
    }

    /// The stored form of a record's fields.
    private static let storedFields = FuzzTarget(
        "stored-fields",
        seeds: [
            #"{"title":{"value":"a","type":"STRING"},"n":{"value":3,"type":"INT64"},"l":{"value":["a"],"type":"STRING_LIST"}}"#,
            #"{"f":{"value":{"fileChecksum":"AAAA","size":4},"type":"ASSETID"},"r":{"value":{"recordName":"x","action":"NONE"},"type":"REFERENCE"}}"#,
        ],
        words: [
            #""type":"INT64""#, #""type":"DOUBLE_LIST""#, #""type":"TIMESTAMP""#, #""type":"LOCATION""#,
            #""type":"BYTES""#, #""isEncrypted":true"#, #"{"value":"#,
        ]
    ) { input in
        _ = try? FieldsJSON.assets(in: input)
        _ = try? FieldsJSON.enforcedReferences(in: input)
        _ = try? FieldsJSON.select(.init(desiredKeys: ["title", "n"], numbersAsStrings: true), from: input)
        guard let entries = try? FieldsJSON.decode(input) else { return Finding("refused") }
        let written = FieldsJSON.encode(entries)
        guard let again = try? FieldsJSON.decode(written) else {
            return Finding("bad copy", objection: "the re-encoded value is refused")
        }
        let names = Set(entries.map(\.name)) == Set(again.map(\.name))
        return Finding("read \(min(entries.count, 5))", objection: names ? nil : "re-encoding changes the fields")
    }

    /// The saved state of a sync engine, which an app may pass in damaged.
    private static let engineState = FuzzTarget(
        "engine-state",
        seeds: [
            #"{"version":1,"databaseToken":"AAAA","zones":[{"name":"Notes","owner":"_u","token":"AA"}],"unfetched":[],"#
                + #""changes":[{"operation":"save","record":"a","zone":{"name":"Notes","owner":"_u"}}],"isUntracked":false,"#
                + #""heldUntil":700000000,"user":"_u"}"#
        ],
        words: [#""version":"#, #""changes":"#, #""operation":"delete""#, #""token":"#]
    ) { input in
        let decoded = try? JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: Data(input))
        guard let decoded else { return Finding("refused") }
        guard let written = try? JSONEncoder().encode(decoded) else {
            // A date outside of every calendar cannot be encoded.
            return Finding("unwritable")
        }
        let again = try? JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: written)
        return Finding("read", objection: again == nil ? "the re-encoded value is refused" : nil)
    }

    /// Answers that a client receives from a relay or from an attacker in its place.
    private static let relayAnswer = FuzzTarget(
        "relay-answer",
        seeds: [
            #"{"records":[{"recordName":"a","recordType":"Note","recordChangeTag":"1","created":{"timestamp":1,"userRecordName":"_u","deviceID":"d"},"fields":{"t":{"value":"x","type":"STRING"}}},{"recordName":"b","deleted":true},{"recordName":"c","serverErrorCode":"CONFLICT","reason":"r","retryAfter":2}]}"#,
            #"{"records":[{"recordName":"s","recordType":"cloudkit.share","shortGUID":"g","publicPermission":"NONE","participants":[{"participantId":"p","type":"OWNER","permission":"READ_WRITE","acceptanceStatus":"ACCEPTED","userIdentity":{"userRecordName":"_u"}}],"fields":{}}]}"#,
        ],
        words: [#""deleted":true"#, #""serverErrorCode":"#, #""zoneID":{"zoneName":"z"}"#, #""retryAfter":"#]
    ) { input in
        guard let root = try? JSONDocument(parsing: input).root else { return Finding("no JSON") }
        var count = 0
        do {
            try ClientResponse.records(root, zone: nil) { _ in count += 1 }
        } catch {
            return Finding("refused after \(min(count, 4))")
        }
        return Finding("entries \(min(count, 5))")
    }
}

/// Queries, from their JSON to their results.
extension FuzzTarget {
    static let queries: [FuzzTarget] = [filters, marker]

    /// The `query` object, sent to a database that has fields of every kind.
    private static let filters = FuzzTarget(
        "query-filters",
        seeds: [
            #"{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":3,"type":"INT64"}}]}"#,
            #"{"recordType":"Note","filterBy":[{"fieldName":"title","comparator":"BEGINS_WITH","fieldValue":{"value":"a"}},{"fieldName":"tags","comparator":"LIST_CONTAINS","fieldValue":{"value":"a"}}]}"#,
            #"{"recordType":"Note","filterBy":[{"fieldName":"place","comparator":"NEAR","distance":100,"fieldValue":{"value":{"latitude":1,"longitude":2}}}],"sortBy":[{"fieldName":"place","relativeLocation":{"value":{"latitude":1,"longitude":2}}}]}"#,
            #"{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"IN","fieldValue":{"value":[1,2,3],"type":"INT64_LIST"}}],"sortBy":[{"fieldName":"___createTime","ascending":false}]}"#,
            #"{"recordType":"Note","filterBy":[{"systemFieldName":"recordName","comparator":"NOT_EQUALS","fieldValue":{"value":{"recordName":"r1"}}},{"comparator":"CONTAINS_ALL_TOKENS","fieldValue":{"value":"a b"}}]}"#,
        ],
        words: [
            #""EQUALS""#, #""NOT_EQUALS""#, #""LESS_THAN_OR_EQUALS""#, #""GREATER_THAN""#, #""NOT_IN""#, #""NEAR""#,
            #""LIST_CONTAINS_ANY""#, #""LIST_MEMBER_BEGINS_WITH""#, #""NOT_LIST_CONTAINS_ALL""#,
            #""CONTAINS_ANY_TOKENS""#, #""fieldName":"when""#, #""fieldName":"place""#, #""distance":-1"#,
            #""latitude":91"#, #""___modTime""#, #""type":"DOUBLE""#, #""type":"TIMESTAMP""#,
        ]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let first = await relay.ask(
                "public/records/query",
                Array(#"{"resultsLimit":2,"query":"#.utf8) + input + [0x7D]
            )
            let finding = FuzzRelay.finding(first)
            guard finding.objection == nil, let root = try? JSONDocument(parsing: first.body).root,
                let marker = try? root["continuationMarker"]?.string(), let page = names(root)
            else { return finding }
            // The continuation marker must continue after the first page.
            let more = Array(#"{"resultsLimit":200,"continuationMarker":"\#(marker)","query":"#.utf8) + input + [0x7D]
            let second = await relay.ask("public/records/query", more)
            let next = FuzzRelay.finding(second)
            guard next.objection == nil, let rest = (try? JSONDocument(parsing: second.body).root).flatMap(names) else {
                return Finding(finding.outcome, objection: next.objection ?? "own marker refused: \(next.outcome)")
            }
            let isTwice = !Set(page).isDisjoint(with: rest)
            return Finding(finding.outcome + " more", objection: isTwice ? "\(page) and then again \(rest)" : nil)
        }
    }

    private static func names(_ root: JSONValue) -> [String]? {
        try? root["records"]?.elements().map { try $0.required("recordName").string() }
    }

    /// The decrypted content of continuation markers.
    ///
    /// Only markers that the relay itself issued reach this parser.
    private static let marker = FuzzTarget(
        "query-marker",
        seeds: [String(decoding: sampleMarker, as: UTF8.self), "{}", ""],
        bytes: []
    ) { input in
        guard let position = try? QueryMarker.decode(input, of: sampleQuery, in: nil) else { return Finding("refused") }
        let again = try? QueryMarker.decode(
            QueryMarker.encode(position, of: sampleQuery, in: nil),
            of: sampleQuery,
            in: nil
        )
        return Finding(
            "read \(position.keys.count)",
            objection: again == position ? nil : "the re-encoded marker differs"
        )
    }

    private static let sampleQuery = Query(recordType: "Note", sorts: [Query.Sort(.modified)])
    private static let sampleMarker = QueryMarker.encode(
        Query.Position(keys: [], recordName: "r1", zone: ZoneID("Notes", owner: UserID("_u"))),
        of: sampleQuery,
        in: nil
    )
}

/// Tokens that the relay gives to clients and that clients send back, possibly altered.
extension FuzzTarget {
    static let tokens: [FuzzTarget] = [changeToken, databaseToken, base64, identityToken, issuerKeys]

    private static let changeToken = FuzzTarget(
        "change-token",
        seeds: [ChangeToken(kind: .zone, log: 1, epoch: 2, position: 3).encoded, "", "AAAA"]
    ) { input in
        let text = String(decoding: input, as: UTF8.self)
        guard let token = ChangeToken(encoded: text) else { return Finding("refused") }
        let again = ChangeToken(encoded: token.encoded)
        return Finding("read \(token.kind)", objection: again == token ? nil : "the re-encoded value differs")
    }

    private static let databaseToken = FuzzTarget(
        "database-token",
        seeds: [
            VectorToken(
                log: 1,
                places: [.init(owner: 2, epoch: 3, position: 4), .init(owner: 5, epoch: 6, position: 7)]
            )
            .encoded,
            ChangeToken(kind: .database, log: 1, epoch: 2, position: 3).encoded, "",
        ]
    ) { input in
        let text = String(decoding: input, as: UTF8.self)
        guard let token = DatabaseToken(encoded: text) else { return Finding("refused") }
        let again = DatabaseToken(encoded: token.encoded)
        return Finding("read", objection: again == token ? nil : "the re-encoded value differs")
    }

    private static let base64 = FuzzTarget("base64", seeds: ["AAECAwQFBgc=", "AA==", "A", "AA\n=="]) { input in
        guard let bytes = Base64.decode(input) else { return Finding("refused") }
        let again = Base64.decode(Base64.encode(bytes))
        return Finding("read \(bytes.count % 3)", objection: again == bytes ? nil : "the re-encoded value differs")
    }

    /// Identity tokens of external issuers, before their signature is checked.
    private static let identityToken = FuzzTarget(
        "identity-token",
        seeds: [
            "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2kuZXhhbXBsZSIsInN1YiI6InMiLCJhdWQiOiJhIiwiZXhwIjoxfQ.AAAA",
            "a.b.c", "..", "e30.e30.",
        ],
        words: [".", "eyJhbGciOiJub25lIn0", "e30", "="]
    ) { input in
        do {
            _ = try IdentityToken(String(decoding: input, as: UTF8.self))
            return Finding("read")
        } catch {
            return Finding("refused \("\(error)".prefix(40))")
        }
    }

    /// The keys that an issuer publishes.
    private static let issuerKeys = FuzzTarget(
        "issuer-keys",
        seeds: [
            #"{"keys":[{"kty":"RSA","kid":"1","alg":"RS256","use":"sig","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AAAA"}]}"#
        ],
        words: [#""kty":"OKP""#, #""crv":"P-521""#, #""e":"AQAB""#, #""n":"""#, #""keys":"#]
    ) { input in
        do {
            _ = try IssuerKeySet(published: input)
            return Finding("read")
        } catch {
            return Finding("refused \("\(error)".prefix(60))")
        }
    }
}
