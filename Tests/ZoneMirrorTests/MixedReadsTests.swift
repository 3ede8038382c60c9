import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Any number of tasks may read and write concurrently by all APIs without a deadlock.
///
/// A synchronous read blocks its thread until a connection is free. If suspended tasks held connections while they need
/// one of the blocked threads to continue, as many synchronous reads as threads, together with as many suspended tasks
/// as connections, would cause a deadlock.
@Suite(.timeLimit(.minutes(15))) struct MixedReadsTests {
    private static let tasks = 64
    private static let rounds = 40

    @Test func mixedReadsAndWritesDoNotDeadlock() async throws {
        let folder = try TemporaryFolder()
        let description = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        let container = MirroredContainer(model: notesModel, stores: [description])
        try await container.loadStores()
        let store = container.store(at: description.url)
        let database = try #require(container.database(of: store))
        let context = container.newBackgroundContext()
        for number in 0..<200 { try context.insert(Note(title: "note \(number)")) }
        try context.save()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<Self.tasks {
                group.addTask {
                    for round in 0..<Self.rounds {
                        switch (task + round) % 4 {
                        case 0: #expect(try container.newBackgroundContext().fetch(Note.self).count >= 200)
                        case 1: #expect(try await container.pendingExportCount(store) == 0)
                        case 2: _ = try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM Note") }
                        default:
                            let context = container.newBackgroundContext()
                            try context.insert(Note(title: "one more"))
                            try context.save()
                            _ = try await container.history(after: container.currentHistoryToken())
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try context.count(FetchRequest(Note.self)) == 200 + Self.tasks * Self.rounds / 4)
        await container.close()
    }

    /// The same during an import, with pinned contexts that hold connections of their own.
    @Test func mixedReadsDuringAnImportDoNotDeadlock() async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        for number in 0..<2_000 { try context.insert(Note(id: RecordName("n\(number)"), title: "note \(number)")) }
        try context.save()
        try await phone.sync()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await laptop.container.fetchChanges() }
            for task in 0..<32 {
                group.addTask {
                    let pinned = laptop.context()
                    if task % 4 == 0 { pinned.setQueryGeneration(.current) }
                    for round in 0..<20 {
                        if (task + round).isMultiple(of: 2) {
                            let count = try pinned.fetch(Note.self).count
                            #expect(try pinned.queryGeneration == nil || pinned.fetch(Note.self).count == count)
                        } else {
                            _ = try await laptop.container.hasCompletedInitialImport(laptop.store)
                            _ = try await laptop.container.events(of: laptop.store)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try laptop.titles.count == 2_000)
    }
}
