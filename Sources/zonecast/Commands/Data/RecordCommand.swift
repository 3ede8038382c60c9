import ArgumentParser
import Foundation
import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// `zonecast record`: reads and writes records of a running relay.
struct RecordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record",
        abstract: "Query, read and write records of a running relay.",
        subcommands: [
            Query.self, Show.self, Create.self, Edit.self, Delete.self, Changes.self, Import.self, Export.self,
        ]
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show records by their names.")

        @Argument(help: "The records' names.")
        var names: [String]
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            let records = try await RecordCommand.lookup(names, in: zone, remote)
            try RecordTable.say(records.filter { $0["serverErrorCode"] == nil }, json: remote.json, empty: "")
            guard let missing = records.first(where: { $0["serverErrorCode"] != nil }) else { return }
            let reason = missing.text("reason") ?? ""
            throw CommandFailure(.failed, "\(missing.text("recordName") ?? ""): \(reason)")
        }
    }

    private static func lookup(
        _ names: [String],
        in zone: ZoneOptions,
        _ remote: RemoteOptions
    ) async throws -> [JSONValue] {
        var body = JSONWriter()
        body.object { body in
            zone.write(to: &body)
            body.key("records")
            body.array(names) { list, name in list.object { $0.member("recordName", name) } }
        }
        return try await remote.call("records/lookup", body, in: zone).list("records")
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a record.")

        @Argument(help: ArgumentHelp("The record type.", valueName: "type"))
        var type: String
        @Argument(help: "Fields: name=text, name:=JSON, or name:TYPE=JSON.")
        var fields: [FieldArgument] = []
        @Option(help: "The record's name. (default: chosen by the relay)")
        var name: String?
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            let write = RecordWrite("create", name: name, type: type, fields: fields)
            try await RecordWrite.perform([write], in: zone, remote)
        }
    }

    struct Edit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Edit fields of a record.",
            discussion: "With --tag, only if the record has not changed since; otherwise unconditionally."
        )

        @Argument(help: "The record's name.")
        var name: String
        @Argument(help: "Fields: name=text, name:=JSON, or name:TYPE=JSON; name= clears.")
        var fields: [FieldArgument]
        @Option(help: "The change tag that the record must have.")
        var tag: String?
        @Option(help: "The record type; creates the record if it does not exist.")
        var type: String?
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            if type == nil, let record = try await RecordCommand.lookup([name], in: zone, remote).first,
                record.text("serverErrorCode") == "NOT_FOUND"
            {
                throw CommandFailure(.failed, "There is no record \(name) in \(zone.zone). Add --type to create it.")
            }
            let kind = tag == nil ? "forceUpdate" : "update"
            let write = RecordWrite(kind, name: name, type: type, tag: tag, fields: fields)
            try await RecordWrite.perform([write], in: zone, remote)
        }
    }
}

/// One operation of a write.
struct RecordWrite {
    var kind: String
    var name: String?
    var type: String?
    var tag: String?
    var fields: [FieldArgument]

    init(_ kind: String, name: String? = nil, type: String? = nil, tag: String? = nil, fields: [FieldArgument] = []) {
        self.kind = kind
        self.name = name
        self.type = type
        self.tag = tag
        self.fields = fields
    }

    /// The maximum number of operations per request.
    static let maxOperationsPerRequest = 200

    static func perform(_ writes: [RecordWrite], in zone: ZoneOptions, _ remote: RemoteOptions) async throws {
        for start in stride(from: 0, to: writes.count, by: maxOperationsPerRequest) {
            var body = JSONWriter()
            body.object { body in
                zone.write(to: &body)
                body.member("atomic", false)
                body.key("operations")
                body.array(writes[start..<min(start + maxOperationsPerRequest, writes.count)]) { $1.write(to: &$0) }
            }
            let outcomes = try await remote.call("records/modify", body, in: zone).list("records")
            try RecordTable.say(outcomes: outcomes, json: remote.json)
        }
    }

    private func write(to writer: inout JSONWriter) {
        writer.object { operation in
            operation.member("operationType", kind)
            operation.key("record")
            operation.object { record in
                if let name { record.member("recordName", name) }
                if let type { record.member("recordType", type) }
                if let tag { record.member("recordChangeTag", tag) }
                record.key("fields")
                record.object { object in fields.forEach { $0.write(to: &object) } }
            }
        }
    }
}

/// The options of a query.
struct QueryOptions: ParsableArguments {
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
        of type: String,
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
                let first = try await firstPage(of: type) { texts in body(type, sorts, fields, nil, texts, limit: limit)
                }
                answer = first.answer
                texts = first.texts
            } else {
                answer = try await remote.call("records/query", body(type, sorts, fields, marker, texts, limit: limit))
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
        of type: String,
        _ body: (Set<Int>) -> JSONWriter
    ) async throws -> (answer: JSONValue, texts: Set<Int>) {
        let unsure = filter.indices.filter { filter[$0].mayBeText }
        var attempts = [[]] + unsure.map { [$0] }
        if unsure.count > 1 { attempts.append(unsure) }
        var refusal: CommandFailure?
        for attempt in attempts.map({ Set($0) }) {
            do {
                return (try await remote.call("records/query", body(attempt), in: zone, type: type), attempt)
            } catch let failure as CommandFailure where failure.code == ErrorCode.badRequest.rawValue {
                refusal = refusal ?? failure
            }
        }
        throw refusal ?? CommandFailure(.failed, "The relay refused the query.")
    }

    private func body(
        _ type: String,
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

extension RecordCommand {
    struct Query: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Find records of a type.")

        @Argument(help: ArgumentHelp("The record type.", valueName: "type"))
        var type: String
        @OptionGroup var query: QueryOptions
        @Option(help: "A field to sort by, -FIELD for descending order; may be repeated.")
        var sort: [String] = []
        @Option(help: "Only these fields, separated by commas.")
        var fields: String?
        @Option(name: .count, help: "The maximum number of records.")
        var limit: Int?

        func validate() throws {
            guard (limit ?? 1) >= 1 else { throw ValidationError("--limit is a number of at least 1.") }
        }

        func run() async throws {
            var found: [JSONValue] = []
            let json = query.remote.json
            let fields = fields?.split(separator: ",").map(String.init)
            try await query.pages(of: type, sorts: sort, fields: fields, limit: limit) { page in
                // JSON lines need no column widths, so print them at once.
                if json { try RecordTable.say(page, json: true, empty: "") } else { found += page }
            }
            if !json {
                try RecordTable.say(found, json: false, empty: "There are no matching records of type \(type).")
            }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete records by their names, or with --type all that a query finds.",
            discussion: "With --type, use --dry-run first: it counts the records without deleting them."
        )

        @Argument(help: "The records' names.")
        var names: [String] = []
        @Option(help: "Delete all records of this type that match --filter.")
        var type: String?
        @OptionGroup var query: QueryOptions
        @Flag(name: .long, help: "With --type: only count the records; delete nothing.")
        var dryRun = false

        func validate() throws {
            guard type == nil else {
                if !names.isEmpty { throw ValidationError("Use names or --type, not both.") }
                return
            }
            if names.isEmpty { throw ValidationError("Name the records, or add --type.") }
            if dryRun || !query.filter.isEmpty { throw ValidationError("--filter and --dry-run need --type.") }
        }

        func run() async throws {
            guard let type else { return try await delete(names) }
            var names: [String] = []
            try await query.pages(of: type, fields: [], limit: nil) {
                names += $0.compactMap { $0.text("recordName") }
            }
            if !dryRun { try await delete(names) }
            // Each deleted record has a line of its own.
            guard !query.remote.json else {
                return dryRun || names.isEmpty ? try Terminal.say(json: ["found": names.count]) : ()
            }
            let what = names.count.of("record")
            Terminal.tell(dryRun ? "\(what) would be deleted" : "\(what) deleted")
        }

        private func delete(_ names: [String]) async throws {
            let writes = names.map { RecordWrite("forceDelete", name: $0) }
            try await RecordWrite.perform(writes, in: query.zone, query.remote)
        }
    }
}

/// Reads the changes of one zone, page by page.
struct FeedOptions: ParsableArguments {
    @OptionGroup var zone: ZoneOptions
    @OptionGroup var remote: RemoteOptions

    /// Passes the changes since a token to `take`, page by page; returns the next token.
    func read(since token: String?, _ take: ([JSONValue]) throws -> Void) async throws -> String? {
        var token = token
        var hasMore = true
        while hasMore {
            var body = JSONWriter()
            body.object { body in
                body.key("zones")
                body.array(CollectionOfOne(token)) { list, token in
                    list.object { entry in
                        zone.write(to: &entry)
                        if let token { entry.member("syncToken", token) }
                        entry.member("resultsLimit", 200)
                    }
                }
            }
            let answer = try await remote.call("changes/zone", body)
            guard let page = answer.list("zones").first else { break }
            if page["serverErrorCode"] != nil {
                throw await remote.suggesting(Self.failure(page, since: token), in: zone)
            }
            try take(page.list("records"))
            token = page.text("syncToken") ?? token
            hasMore = try page["moreComing"]?.bool() ?? false
        }
        return token
    }

    /// Returns why the fetch failed, with the remedy for an expired token.
    private static func failure(_ page: JSONValue, since token: String?) -> CommandFailure {
        var failure = CommandFailure(refusal: page)
        guard let code = page.text("ckErrorCode"), code == "CHANGE_TOKEN_EXPIRED" else { return failure }
        failure.code = code
        failure.description =
            "\(code): the zone was reset or restored, or changes of that age were deleted. Fetch everything again, without --since; "
            + "apps that use the SDK do so automatically."
        return failure
    }
}

extension RecordCommand {
    struct Changes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what changed in a zone, deletions included.",
            discussion: """
                Ends with the token for the next --since. With --follow, it stays connected as an additional device of the user, prints \
                each change as it arrives, and prints the token when it is stopped.
                """
        )

        @Option(help: ArgumentHelp("Only changes after this token.", valueName: "token"))
        var since: String?
        @Flag(name: .shortAndLong, help: "Wait for further changes, until control-C.")
        var follow = false
        @OptionGroup var feed: FeedOptions

        func validate() throws {
            if follow, feed.remote.database == .public {
                throw ValidationError(
                    "The public database sends no notices. Use --follow with --database private or shared."
                )
            }
        }

        func run() async throws {
            var found: [JSONValue] = []
            let token = try await feed.read(since: since) { found += $0 }
            try RecordTable.say(found, json: feed.remote.json, empty: "Nothing has changed.")
            if follow {
                try await FollowedFeed(feed, since: token).run()
            } else {
                try Self.say(token, json: feed.remote.json)
            }
        }

        fileprivate static func say(_ token: String?, json: Bool) throws {
            guard let token else { return }
            if json { try Terminal.say(json: ["syncToken": token]) } else { Terminal.say("token  \(token)") }
        }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all records of a zone, one line of JSON each.",
            discussion:
                "Import it with zonecast record import. It contains the URLs of assets, not their contents."
        )

        @OptionGroup var feed: FeedOptions

        func run() async throws {
            _ = try await feed.read(since: nil) { $0.forEach { Terminal.say($0.line) } }
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Save records from lines of JSON, as export prints them.",
            discussion: """
                Existing records are replaced. Deleted records and shares are left out: imported records belong to the \
                importing user only, until they share them.
                """
        )

        @Argument(help: "The file; - for standard input.", completion: .file())
        var file: String
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            guard let input = InputFile.bytes(file) else { throw CommandFailure(.usage, "\(file) cannot be read.") }
            var records: [JSONDocument] = []
            var shares = 0
            for (number, line) in input.split(separator: UInt8(ascii: "\n")).enumerated() {
                guard let document = try? JSONDocument(parsing: Array(line)), document.root.isObject else {
                    throw CommandFailure(.usage, "\(file) line \(number + 1) is not a record in JSON.")
                }
                if document.root.isShare {
                    shares += 1
                } else if (try? document.root["deleted"]?.bool()) != true {
                    records.append(document)
                }
            }
            for batch in ImportPlan(records).batches { try await save(batch) }
            guard shares > 0, !Terminal.isQuiet else { return }
            let what = shares == 1 ? "1 share was" : "\(shares) shares were"
            Terminal.sayError("\(what) left out. To share what was imported: zonecast share create --help")
        }

        private func save(_ batch: [JSONDocument]) async throws {
            var body = JSONWriter()
            body.object { body in
                zone.write(to: &body)
                body.member("atomic", false)
                body.key("operations")
                body.array(batch) { list, document in
                    list.object { operation in
                        operation.member("operationType", "forceReplace")
                        operation.key("record")
                        operation.object { record in
                            if let name = document.root.text("recordName") { record.member("recordName", name) }
                            if let type = document.root.text("recordType") { record.member("recordType", type) }
                            record.key("fields")
                            record.raw(document.root["fields"]?.rawBytes ?? [0x7B, 0x7D])
                            if let parent = document.root["parent"] {
                                record.key("parent")
                                record.raw(parent.rawBytes)
                            }
                        }
                    }
                }
            }
            try RecordTable.say(
                outcomes: try await remote.call("records/modify", body).list("records"),
                json: remote.json
            )
        }
    }
}

/// Prints a zone's changes as they arrive: each notice triggers a fetch since the last token.
private final class FollowedFeed: Sendable {
    private let feed: FeedOptions
    private let token: Mutex<String?>

    init(_ feed: FeedOptions, since token: String?) {
        self.feed = feed
        self.token = Mutex(token)
    }

    /// Prints changes until a stop signal arrives, then the last token.
    func run() async throws {
        let watch = try await NoticeWatch(
            feed.remote.relay,
            database: feed.remote.database == .shared ? .shared : .private
        )
        try await watch.run { event in
            switch event {
            case .live: try await self.show()
            case .notice(let notice):
                let isHere = notice.zone.map { $0.zoneName == self.feed.zone.zone } ?? true
                if isHere { try await self.show() }
            }
        }
        try RecordCommand.Changes.say(token.withLock { $0 }, json: feed.remote.json)
    }

    private func show() async throws {
        do {
            let before = token.withLock { $0 }
            let after = try await feed.read(since: before) { page in
                for record in page { Terminal.say(feed.remote.json ? record.line : try RecordTable.line(record)) }
            }
            token.withLock { $0 = after }
        } catch let failure as CommandFailure where failure.exit == .unreachable {
            // The next connection fetches the changes again.
            Terminal.sayError(failure.description)
        }
    }
}

extension JSONValue {
    /// Whether this is a share record, which must not be imported: saving it would share the zone.
    fileprivate var isShare: Bool {
        let type = text("recordType")
        return type == Share.recordType || type == Share.misspeltRecordType
    }
}

/// The order and batches in which imported records are saved, so that references point to records that exist.
struct ImportPlan {
    /// The records of each request.
    let batches: [[JSONDocument]]

    /// Plans the import of `records`, which are in file order (by latest change), so that targets may follow their
    /// references.
    init(_ records: [JSONDocument]) {
        let names = records.map { $0.root.text("recordName") ?? "" }
        let places = Dictionary(zip(names, records.indices)) { $1 }
        let order = Self.targetsFirst(records.map { $0.root.targets.compactMap { places[$0] } })
        // About 100 bytes for the operation around the record.
        batches = BatchLimits().split(order.map { records[$0] }) { $0.root.rawBytes.count + 100 }
    }

    /// Returns all indexes, each after its targets; in a cycle, one precedes its target.
    private static func targetsFirst(_ targets: [[Int]]) -> [Int] {
        var order: [Int] = []
        var isSeen = Array(repeating: false, count: targets.count)
        for start in targets.indices where !isSeen[start] {
            // An explicit stack, since chains may be too long for recursion.
            var path = [(place: start, next: 0)]
            isSeen[start] = true
            while let (place, next) = path.popLast() {
                guard next < targets[place].count else {
                    order.append(place)
                    continue
                }
                path.append((place, next + 1))
                let target = targets[place][next]
                if !isSeen[target] {
                    isSeen[target] = true
                    path.append((target, 0))
                }
            }
        }
        return order
    }
}

extension JSONValue {
    /// The names of the parent and of all referenced records.
    fileprivate var targets: [String] {
        let fields = (try? self["fields"]?.members()) ?? []
        let values = fields.compactMap { $0.value["value"] }.flatMap { (try? $0.elements()) ?? [$0] }
        return (values + [self["parent"]].compactMap { $0 }).compactMap { $0.isObject ? $0.text("recordName") : nil }
    }
}
