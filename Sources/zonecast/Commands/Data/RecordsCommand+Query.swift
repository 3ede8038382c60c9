import ArgumentParser
import Records
import Wire

/// The options of a query.
struct QueryOptions: ParsableArguments {
    @Argument(help: ArgumentHelp("The record type.", valueName: "type"))
    var type: String
    @Option(
        help: "FIELD COMPARATOR VALUE, such as 'title BEGINS_WITH Mi' or 'count >= 3'; may be repeated.",
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
        repeat {
            let answer = try await remote.call("records/query", body(sorts, fields, marker, limit: min(left, 200)))
            let records = answer.list("records")
            left -= records.count
            try await take(records)
            marker = answer.text("continuationMarker")
        } while marker != nil && left > 0
    }

    private func body(_ sorts: [String], _ fields: [String]?, _ marker: String?, limit: Int) -> JSONWriter {
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
                query.array(filter) { $1.write(to: &$0) }
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
