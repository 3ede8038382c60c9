import Records
import RelayAPI
import Wire

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
