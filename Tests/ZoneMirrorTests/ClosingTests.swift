import Foundation
import Testing
import ZoneMirror

/// A container may be closed while other tasks read from it.
@Suite(.timeLimit(.minutes(15))) struct ClosingTests {
    @Test func readsInProgressSurviveClosingTheContainer() async throws {
        let folder = try TemporaryFolder()
        for round in 0..<20 {
            let description = StoreDescription(url: folder.url.appendingPathComponent("\(round).sqlite"))
            let container = MirroredContainer(model: notesModel, stores: [description])
            try await container.loadStores()
            let context = container.newBackgroundContext()
            for number in 0..<50 { try context.insert(Note(title: "note \(number)")) }
            try context.save()
            let found = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var found = 0
                        while let count = try? context.fetch(Note.self).count, count > 0 {
                            found += count
                            await Task.yield()
                        }
                        return found
                    }
                }
                group.addTask {
                    for _ in 0..<round { await Task.yield() }
                    await container.close()
                    return 0
                }
                return await group.reduce(0, +)
            }
            #expect(found % 50 == 0)
            #expect(try context.fetch(Note.self).isEmpty)
        }
    }
}
