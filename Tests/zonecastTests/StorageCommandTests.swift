import Foundation
import TestSupport
import Testing

/// `zonecast storage compact|copy` and `asset clean`, with and without a running relay.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct StorageCommandTests {
    private let folder = ScratchFolder()
    private static let container = "iCloud.org.example.storage"

    private struct Compacted: Decodable {
        struct Store: Decodable { var file: String, bytes: Int64, freeBytes: Int64, bytesAfter: Int64? }
        var stores: [Store]

        var development: Store? { stores.first { $0.file.hasSuffix("development.sqlite") } }
    }

    private struct Copied: Decodable { var records: Int, zones: Int, assets: Int, rows: Int, isEqual: Bool }
    private struct Feed: Decodable {
        struct Zone: Decodable { var records: [Item]?, syncToken: String?, serverErrorCode: String? }
        struct Item: Decodable { var recordName: String }
        var zones: [Zone]
    }

    private func zonecast(_ arguments: String...) throws -> Command {
        try Command.run(arguments + ["--data", folder.path])
    }

    private static func path(_ operation: String) -> String {
        "/database/1/\(Self.container)/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }

    private func makeZone(_ connection: HTTPConnection) throws {
        let body = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        #expect(try connection.send("POST", Self.path("zones/modify"), body: body).status == 200)
    }

    /// Saves records whose text has this length, or deletes them.
    private static func modify(
        _ numbers: Range<Int>,
        deletes: Bool = false,
        length: Int = 8_000,
        _ connection: HTTPConnection
    ) throws {
        for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            let operations = (start..<min(start + 100, numbers.upperBound)).map { number in
                let text = String(repeating: "\(number % 10)", count: length)
                return deletes
                    ? #"{"operationType":"forceDelete","record":{"recordName":"r\#(number)"}}"#
                    : #"{"operationType":"forceReplace","record":{"recordName":"r\#(number)","recordType":"Note","fields":{"text":{"value":"\#(text)"}}}}"#
            }
            let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(operations.joined(separator: ","))]}"#
            let answer = try connection.send("POST", Self.path("records/modify"), body: body)
            #expect(answer.status == 200, "\(String(decoding: answer.body.prefix(300), as: UTF8.self))")
        }
    }

    private func feed(since token: String? = nil, _ connection: HTTPConnection) throws -> Feed.Zone {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"},"resultsLimit":200,"desiredKeys":[]\#(since)}]}"#
        let answer = try connection.send("POST", Self.path("changes/zone"), body: body)
        return try #require(try answer.json(Feed.self).zones.first)
    }

    /// Saves a record with an asset of five bytes.
    private func saveFile(_ connection: HTTPConnection) throws {
        struct Tokens: Decodable {
            struct Token: Decodable { var url: String }
            var tokens: [Token]
        }
        let tokenRequest =
            #"{"zoneID":{"zoneName":"Notes"},"tokens":[{"recordType":"Note","recordName":"with file","fieldName":"file"}]}"#
        let tokens = try connection.send("POST", Self.path("assets/upload"), body: tokenRequest).json(Tokens.self)
        let url = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
        let place = url.path + (url.query.map { "?\($0)" } ?? "")
        let uploaded = String(decoding: try connection.send("POST", place, body: "hello").body, as: UTF8.self)
        let file = try #require(uploaded.firstMatch(of: /"singleFile":(\{.*\})\}/)).1
        let body =
            #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"with file","recordType":"Note","fields":{"file":{"value":\#(file)}}}}]}"#
        let saved = try connection.send("POST", Self.path("records/modify"), body: body)
        #expect(saved.status == 200, "\(String(decoding: saved.body, as: UTF8.self))")
    }

    @Test func errorsAboutADamagedStoreContainNoSQL() throws {
        let relay = try RelayProcess(folder: folder.path)
        try makeZone(try relay.connect())
        #expect(relay.stop().status == 0)
        let files = try #require(FileManager.default.enumerator(atPath: folder.path)).compactMap { $0 as? String }
        let store = try #require(files.first { $0.hasSuffix("development.sqlite") })
        try Data(repeating: 0x61, count: 8_192).write(to: URL(fileURLWithPath: folder.path + "/" + store))
        let run = try zonecast("storage", "compact", "--dry-run")
        #expect(run.status == 1 && run.errors.contains("is damaged"), "\(run.errors)")
        #expect(!run.errors.contains("SELECT") && !run.errors.contains("PRAGMA"))
    }

    @Test func aStoreIsCompactedWhileItsRelayWrites() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(connection)
        try Self.modify(0..<800, connection)
        try Self.modify(0..<700, deletes: true, connection)

        // The first compaction rewrites the whole store: it is small enough for the relay's writes to wait.
        let first = try zonecast("storage", "compact", "--json")
        #expect(first.status == 0, "\(first.errors)")
        let before = try #require(try first.json(Compacted.self).development)
        #expect(before.freeBytes > 4_000_000)
        #expect(before.bytesAfter ?? .max < before.bytes - 4_000_000, "\(before)")

        // Later compactions free a few pages at a time, while a client writes.
        try Self.modify(1_000..<1_600, connection)
        try Self.modify(1_000..<1_600, deletes: true, connection)
        let writes = Thread.WriteProgress()
        let port = relay.port
        let writer = Thread {
            let own = try? HTTPConnection(port: port)
            var number = 5_000
            while !writes.isOver, let own {
                guard (try? Self.modify(number..<(number + 1), length: 10, own)) != nil else { break }
                number += 1
                writes.count = number - 5_000
            }
            writes.hasEnded = true
        }
        writer.start()
        let begun = ContinuousClock.now + .seconds(120)
        while writes.count == 0, !writes.hasEnded, ContinuousClock.now < begun { usleep(5_000) }
        #expect(writes.count > 0, "waited 120 s for the first write")
        let second = try zonecast("storage", "compact", "--json")
        writes.isOver = true
        let deadline = ContinuousClock.now + .seconds(120)
        while !writes.hasEnded, ContinuousClock.now < deadline { usleep(5_000) }
        #expect(writes.hasEnded, "waited 120 s for the writer to end")
        #expect(second.status == 0, "\(second.errors)")
        let after = try #require(try second.json(Compacted.self).development)
        #expect(after.freeBytes > 3_000_000 && (after.bytesAfter ?? .max) < after.bytes - 3_000_000, "\(after)")

        let written = writes.count
        var seen: Set<String> = []
        var token: String?
        while true {
            let page = try feed(since: token, connection)
            seen.formUnion((page.records ?? []).map(\.recordName))
            guard page.records?.isEmpty == false else { break }
            token = page.syncToken
        }
        #expect((5_000..<(5_000 + written)).allSatisfy { seen.contains("r\($0)") }, "an answered write is missing")
        #expect((700..<800).allSatisfy { seen.contains("r\($0)") })
        let doctor = try zonecast("doctor", "--json", "--timeout", "120")
        #expect(doctor.status == 0, "\(doctor.output)")
        #expect(relay.stop().status == 0)
        let audit = try zonecast("log", "audit")
        #expect(audit.output.contains("storage.compact"))
    }

    @Test func aDryRunOfCompactLeavesTheStoreAndAStoppedStoreIsCompactedAsAWhole() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(connection)
        let file = "\(folder.path)/containers/\(Self.container)/development.sqlite"
        // A store with little content, whatever the length in its header.
        try Self.modify(0..<10, connection)
        let dry = try zonecast("storage", "compact", "--dry-run", "--json").json(Compacted.self)
        #expect(dry.development?.bytesAfter == nil)
        #expect(FileManager.default.fileExists(atPath: file))
        #expect(relay.stop().status == 0)
        #expect(try zonecast("storage", "compact", "--whole").output.contains("development.sqlite"))
        #expect(try zonecast("storage", "compact", "--json").json(Compacted.self).development?.freeBytes == 0)
    }

    @Test func aCopyEqualsTheFolderAndDevicesContinueWithTheirTokens() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(connection)
        try Self.modify(0..<50, connection)
        try saveFile(connection)
        let token = try #require(try feed(connection).syncToken)
        let other = folder.path + "-copy"
        defer { try? FileManager.default.removeItem(atPath: other) }
        struct Listed: Decodable { var assets: Int, unused: Int }
        let own = ["--container", Self.container, "--data", folder.path, "--json"]
        let listed = try Command.run(["asset", "list"] + own).json(Listed.self)
        #expect(listed.assets == 1 && listed.unused == 0)
        #expect(try Command.run(["asset", "verify"] + own).status == 0)
        let early = try zonecast("storage", "copy", "--to", other)
        #expect(early.status == 5)
        #expect(early.errors.contains("Stop it first") && !FileManager.default.fileExists(atPath: other))
        #expect(relay.stop().status == 0)

        #expect(try Command.run(["alert", "edit", "disk", "--limit", "5GB", "--data", folder.path]).status == 0)
        let copied = try zonecast("storage", "copy", "--to", other, "--json")
        #expect(copied.status == 0, "\(copied.errors)")
        let answer = try copied.json(Copied.self)
        #expect(answer.isEqual && answer.records >= 51 && answer.rows > 51 && answer.assets == 1, "\(answer)")
        #expect(FileManager.default.fileExists(atPath: other + "/alerts.json"))
        #expect(try zonecast("storage", "copy", "--to", other).status == 1, "the target is not empty")
        let inside = try zonecast("storage", "copy", "--to", folder.path + "/containers/copy")
        #expect(inside.status == 1 && inside.errors.contains("Name a folder outside of it"))
        let far = try zonecast("storage", "copy", "--to", "postgres://relay@db1/relay")
        #expect(far.status == 2 && far.errors.contains("folders with SQLite files"))
        #expect(!FileManager.default.fileExists(atPath: other + ".partial"))

        let moved = try RelayProcess(folder: other)
        let later = try moved.connect()
        try Self.modify(50..<51, later)
        let news = try feed(since: token, later)
        #expect(news.serverErrorCode == nil && news.records?.map(\.recordName) == ["r50"])
        #expect(moved.stop().status == 0)
    }

    @Test func unusedAssetsAreDeletedWithoutARunningRelay() throws {
        let relay = try RelayProcess(folder: folder.path)
        try makeZone(try relay.connect())
        #expect(relay.stop().status == 0)
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c"
        let place = "\(folder.path)/containers/\(Self.container)/development.assets/\(hash.prefix(2))"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try Data("hello".utf8).write(to: URL(fileURLWithPath: "\(place)/\(hash)"))
        struct Answer: Decodable { var removed: Int, bytes: Int64, isDone: Bool }
        let own = ["asset", "clean", "--container", Self.container, "--data", folder.path, "--json"]
        #expect(try Command.run(own).json(Answer.self).removed == 0, "the file is too new")
        let dry = try Command.run(own + ["--older-than", "0", "--dry-run"]).json(Answer.self)
        #expect(dry.removed == 1 && dry.bytes == 5 && !dry.isDone)
        #expect(FileManager.default.fileExists(atPath: "\(place)/\(hash)"))
        // The store compares file times in whole seconds.
        usleep(1_100_000)
        #expect(try Command.run(own + ["--older-than", "0"]).json(Answer.self).removed == 1)
        #expect(!FileManager.default.fileExists(atPath: "\(place)/\(hash)"))
    }
}

extension Thread {
    /// Shared between the writing thread and the test.
    fileprivate final class WriteProgress: @unchecked Sendable {
        // Unchecked: every access is under the lock.
        private let lock = NSLock()
        private var values = (isOver: false, hasEnded: false, count: 0)

        var isOver: Bool {
            get { lock.withLock { values.isOver } }
            set { lock.withLock { values.isOver = newValue } }
        }
        var hasEnded: Bool {
            get { lock.withLock { values.hasEnded } }
            set { lock.withLock { values.hasEnded = newValue } }
        }
        var count: Int {
            get { lock.withLock { values.count } }
            set { lock.withLock { values.count = newValue } }
        }
    }
}
