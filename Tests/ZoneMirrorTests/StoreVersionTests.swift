import Foundation
import GRDB
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

/// Files of other versions of the library.
@Suite(.timeLimit(.minutes(15))) struct StoreVersionTests {
    private let relay: TestRelay
    private let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func open() async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
    }

    /// A different fingerprint means that existing files lack a change: make it a migration instead.
    ///
    /// Until the first release, the tables and this number may be changed together.
    @Test("the mirror's tables of the first version stay as they are") func tables() throws {
        let statements = try DatabaseQueue().write { db in
            try StoreTables.create(db, name: "")
            return try String.fetchAll(db, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        }
        #expect(StoreTables.version == 1)
        #expect(schemaFingerprint(statements) == "5e5f6fc9d8622f91")
    }

    @Test(
        "a file of another version is refused and keeps its unsent changes",
        arguments: [(nil, "no released version"), (0, "no released version"), (2, "Use the newer version again")],
    )
    func otherVersions(version: Int?, words: String) async throws {
        let before = try await open()
        try before.save(Note(id: "a", title: "unsent"))
        let file = try #require(before.container.database(of: before.store))
        try await file.write { try State.set($0, .version, version) }
        await before.container.close()
        do {
            _ = try await open()
            Issue.record("The store was opened.")
        } catch let error as MirrorError {
            #expect(error.code == .unsupportedStoreVersion(version ?? 0))
            #expect(error.explanation.hasPrefix("private.sqlite has layout \(version ?? 0), "), "\(error)")
            #expect(error.explanation.contains(words), "\(error)")
        }
        let left = try DatabaseQueue(path: folder.url.appendingPathComponent("private.sqlite").path)
        try await left.write { db in
            #expect(try String.fetchAll(db, sql: "SELECT oid FROM mirror_outbox") == ["a"])
            try State.set(db, .version, 1)
        }
        try left.close()
        let phone = try await open()
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }
}
