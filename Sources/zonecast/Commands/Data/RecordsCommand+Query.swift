import ArgumentParser
import Records
import Wire

/// The options of a query.
struct QueryOptions: ParsableArguments {
    @Argument(help: ArgumentHelp("The record type.", valueName: "type"))
    var type: String
    @Option(
        help: ArgumentHelp(
            "FIELD COMPARATOR VALUE, such as 'title BEGINS_WITH Mi' or 'count >= 3'; may be repeated.",
            discussion: "The value means what the field holds: 1984 is a text where that holds texts."
        ),
        transform: { try FilterArgument(argument: $0) }
    )
    var filter: [FilterArgument] = []
    @OptionGroup var zone: ZoneOptions
    @OptionGroup var remote: RemoteOptions

    /// Passes the results to `take` page by page, at most `limit` records in total.
    func pages(
        sorts: [String] = [],
        fields: [String]? = nil,
        limit: Int?,
        _ take: ([JSONValue]) async throws -> Void
    ) async throws {
        var left = limit ?? .max
        var marker: String?
        var texts: Set<Int> = []
        repeat {
            let limit = min(left, 200)
            let answer: JSONValue
            if marker == nil {
                let first = try await firstPage { texts in body(sorts, fields, nil, texts, limit: limit) }
                answer = first.answer
                texts = first.texts
            } else {
                answer = try await remote.call("records/query", body(sorts, fields, marker, texts, limit: limit))
            }
            let records = answer.list("records")
            left -= records.count
            try await take(records)
            marker = answer.text("continuationMarker")
        } while marker != nil && left > 0
    }

    /// Returns the first page's answer and the indices of the filters whose values were sent as text for it.
    ///
    /// Sends values that may be text as JSON first. If the relay refuses the query, sends each of them as text, then all of
    /// them. Throws the first refusal if the relay refuses all attempts.
    private func firstPage(
        _ body: (Set<Int>) -> JSONWriter
    ) async throws -> (answer: JSONValue, texts: Set<Int>) {
        let unsure = filter.indices.filter { filter[$0].mayBeText }
        var attempts = [[]] + unsure.map { [$0] }
        if unsure.count > 1 { attempts.append(unsure) }
        var refusal: CommandFailure?
        for attempt in attempts.map({ Set($0) }) {
            do {
                return (try await remote.call("records/query", body(attempt)), attempt)
            } catch let failure as CommandFailure where failure.code == ErrorCode.badRequest.rawValue {
                refusal = refusal ?? failure
            }
        }
        throw refusal ?? CommandFailure(.failed, "The relay refused the query.")
    }

    private func body(
        _ sorts: [String],
        _ fields: [String]?,
        _ marker: String?,
        _ texts: Set<Int>,
        limit: Int
    ) -> JSONWriter {
        var body = JSONWriter()
        body.object { body in
            zone.write(to: &body)
            body.member("resultsLimit", limit)
            if let marker { body.member("continuationMarker", marker) }
            if let fields {
                body.key("desiredKeys")
                body.array(fields) { $0.string($1) }
            }
            body.key("query")
            body.object { query in
                query.member("recordType", type)
                query.key("filterBy")
                query.array(filter.enumerated()) { $1.element.write(asText: texts.contains($1.offset), to: &$0) }
                query.key("sortBy")
                query.array(sorts) { list, sort in
                    list.object {
                        $0.member("fieldName", String(sort.drop { $0 == "-" }))
                        $0.member("ascending", !sort.hasPrefix("-"))
                    }
                }
            }
        }
        return body
    }
}

extension RecordsCommand {
    struct Query: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Find records of a type.")

        @OptionGroup var query: QueryOptions
        @Option(help: "A field to sort by, -FIELD for descending order; may be repeated.")
        var sort: [String] = []
        @Option(help: "Only these fields, separated by commas.")
        var fields: String?
        @Option(help: "The maximum number of records.")
        var limit: Int?

        func validate() throws {
            guard (limit ?? 1) >= 1 else { throw ValidationError("--limit is a number of at least 1.") }
        }

        func run() async throws {
            var found: [JSONValue] = []
            let json = query.remote.json
            let fields = fields?.split(separator: ",").map(String.init)
            try await query.pages(sorts: sort, fields: fields, limit: limit) { page in
                // JSON lines need no column widths, so print them at once.
                if json { try RecordTable.say(page, json: true, empty: "") } else { found += page }
            }
            if !json {
                try RecordTable.say(found, json: false, empty: "There are no matching records of type \(query.type).")
            }
        }
    }

    struct DeleteMany: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete-many",
            abstract: "Delete all records that a query finds.",
            discussion: "Use --dry-run first: it counts the records without deleting them."
        )

        @OptionGroup var query: QueryOptions
        @Flag(help: "Only count the records; delete nothing.")
        var dryRun = false

        func run() async throws {
            var names: [String] = []
            try await query.pages(fields: [], limit: nil) { names += $0.compactMap { $0.text("recordName") } }
            if !dryRun {
                try await RecordWrite.perform(
                    names.map { RecordWrite("forceDelete", name: $0) },
                    in: query.zone,
                    query.remote
                )
            }
            // Each deleted record has a line of its own.
            guard !query.remote.json else {
                return dryRun || names.isEmpty ? try Terminal.say(json: ["found": names.count]) : ()
            }
            let what = names.count.of("record")
            Terminal.tell(dryRun ? "\(what) would be deleted" : "\(what) deleted")
        }
    }
}
