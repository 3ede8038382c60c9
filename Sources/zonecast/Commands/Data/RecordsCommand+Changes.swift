import ArgumentParser
import Foundation
import Records
import Wire

/// The feed of one zone, page by page.
struct FeedOptions: ParsableArguments {
    @OptionGroup var zone: ZoneOptions
    @OptionGroup var remote: RemoteOptions

    /// Hands over the changes since a token; gives the token after them.
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
                throw CommandFailure(.failed, page.text("reason") ?? "The zone cannot be read.")
            }
            try take(page.list("records"))
            token = page.text("syncToken") ?? token
            hasMore = try page["moreComing"]?.bool() ?? false
        }
        return token
    }
}

extension RecordsCommand {
    struct Changes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what changed in a zone, deletions included.",
            discussion: "Ends with the token to give to --since the next time."
        )

        @Option(help: ArgumentHelp("Only what came after this token.", valueName: "token"))
        var since: String?
        @OptionGroup var feed: FeedOptions

        func run() async throws {
            var found: [JSONValue] = []
            let token = try await feed.read(since: since) { found += $0 }
            try RecordTable.say(found, json: feed.remote.json, empty: "Nothing has changed.")
            guard let token else { return }
            if feed.remote.json {
                try Terminal.say(json: ["syncToken": token])
            } else {
                Terminal.say("token  \(token)")
            }
        }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all records of a zone, one line of JSON each.",
            discussion:
                "zonecast records import reads it back. The contents of assets are not in it, only their addresses."
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
                Records that are there are replaced. Deleted ones are left out, and so are shares: what is imported is the
                importer's alone until they share it.
                """
        )

        @Argument(help: "The file; - for standard input.", completion: .file())
        var file: String
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            let input =
                file == "-"
                ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: file)
            guard let input else { throw CommandFailure(.usage, "\(file) cannot be read.") }
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

extension JSONValue {
    /// Whether it is a share's record: saved again, it would share the zone that it is saved in.
    fileprivate var isShare: Bool {
        let type = text("recordType")
        return type == Share.recordType || type == Share.misspeltRecordType
    }
}
