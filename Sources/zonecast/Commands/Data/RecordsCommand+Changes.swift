import ArgumentParser
import Foundation
import Records
import Synchronization
import Wire
import ZoneKit

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
                throw Self.failure(page, since: token)
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

extension RecordsCommand {
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
        @Flag(help: "Wait for further changes, until control-C.")
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
                "Import it with zonecast records import. It contains the URLs of assets, not their contents."
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
            Terminal.complain("\(what) left out. To share what was imported: zonecast shares create --help")
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
        try RecordsCommand.Changes.say(token.withLock { $0 }, json: feed.remote.json)
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
            Terminal.complain(failure.description)
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
