import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// The code listings of the documentation must be compiled here unchanged, and behave as the pages say.
@Suite(.timeLimit(.minutes(15))) struct DocumentationTests {
    private static let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    private static var articles: [URL] {
        get throws {
            let catalogue = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
                .appendingPathComponent("Sources/ZoneKit/ZoneKit.docc")
            return try FileManager.default.contentsOfDirectory(at: catalogue, includingPropertiesForKeys: nil)
                .filter { $0.pathExtension == "md" }
        }
    }

    /// Removes the common indentation.
    private static func dedented(_ lines: [Substring]) -> [String] {
        let filled = lines.filter { !$0.allSatisfy(\.isWhitespace) }
        let indent = filled.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return lines.map { line in
            line.allSatisfy(\.isWhitespace) ? "" : String(line.dropFirst(indent))
        }
    }

    @Test func everyListingIsCompiled() throws {
        let source = try String(
            contentsOf: Self.here.appendingPathComponent("DocumentedPrograms.swift"),
            encoding: .utf8
        )
        var snippets: [[String]] = []
        for part in source.components(separatedBy: "// [").dropFirst() where !part.hasPrefix("end]") {
            let lines = part.split(separator: "\n", omittingEmptySubsequences: false).dropFirst().dropLast()
            snippets.append(Self.dedented(Array(lines)))
        }
        var count = 0
        for article in try Self.articles {
            let text = try String(contentsOf: article, encoding: .utf8)
            for block in text.components(separatedBy: "```swift\n").dropFirst() {
                let code = block.components(separatedBy: "\n```")[0]
                let lines = Self.dedented(code.split(separator: "\n", omittingEmptySubsequences: false))
                #expect(snippets.contains(lines), "\(article.lastPathComponent):\n\(code)")
                count += 1
            }
        }
        #expect(count >= 9)
    }

    @Test func theFirstSyncListingWorks() async throws {
        let relay = try TestRelay()
        #expect(try await firstSync(relay.device(of: "alice").container) == ["Buy milk"])
    }

    @Test func theDelegateKeepsDevicesInSync() async throws {
        let relay = try TestRelay()
        let (phone, laptop) = (NotesSync(), NotesSync())
        phone.start(relay.device(of: "alice", named: "phone").container)
        laptop.start(relay.device(of: "alice", named: "laptop").container)
        phone.write("milk", "Buy milk")
        try await relay.settle()
        #expect(laptop.text("milk") == "Buy milk")
        laptop.write("milk", "Buy oat milk")
        try await relay.settle()
        #expect(phone.text("milk") == "Buy oat milk")
    }

    @Test func conflictsAreMerged() async throws {
        let relay = try TestRelay()
        let database = relay.device(of: "alice").privateDatabase
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n"))
        record["text"] = "first"
        try await database.save(record)
        let stale = CKRecord(recordType: "Note", recordID: record.recordID)
        stale["text"] = "second"
        #expect(try await saveWithRetry(stale, in: database)["text"] == "second")
        let found: [CKRecord] = await withCheckedContinuation { done in
            fetchTheOldWay([record.recordID], in: database) { done.resume(returning: $0) }
        }
        #expect(found.map(\.recordID) == [record.recordID])
    }

    @Test func manualSyncWorks() async throws {
        try await followNotes(try TestRelay().device(of: "alice").container)
    }
}
