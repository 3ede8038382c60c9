import DiskTrials
import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A device's mirror file that is damaged or restored from an older copy: the store opens or reports an error, other
/// devices lose no synced record, and unsent changes are sent.
@Suite(.timeLimit(.minutes(15))) struct MirrorFileTests {
    private let relay: TestRelay
    private let folder: DiskFolder

    init() throws {
        relay = try TestRelay()
        folder = try DiskFolder()
    }

    private typealias Memo = MirrorDiskTests.Memo

    private func path(_ name: String) throws -> String {
        let path = "\(folder.path)/\(name)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path + "/private.sqlite"
    }

    private func open(_ device: TestDevice, _ path: String) async throws -> MirroredContainer {
        let cloud = CloudOptions(container: device.container, scope: .private)
        let description = StoreDescription(url: URL(fileURLWithPath: path), cloud: cloud)
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let container = MirroredContainer(model: MirrorModel(Memo.self), stores: [description], conditions: conditions)
        try await container.loadStores()
        return container
    }

    private func save(_ memos: [Memo], to container: MirroredContainer) throws {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        for memo in memos {
            if try context.object(Memo.self, memo.id) == nil {
                try context.insert(memo)
            } else {
                try context.update(memo)
            }
        }
        try context.save()
    }

    private func texts(_ container: MirroredContainer) throws -> [String: String] {
        let memos = try container.newBackgroundContext().fetch(Memo.self)
        return Dictionary(uniqueKeysWithValues: memos.map { ($0.id.text, $0.text) })
    }

    private func sync(_ container: MirroredContainer) async throws {
        try await container.sendChanges()
        try await container.fetchChanges()
    }

    /// Creates a phone's file with forty synced and three unsent memos, and a laptop that has the forty.
    private func prepare(_ name: String) async throws -> (phone: TestDevice, path: String, laptop: MirroredContainer) {
        let phone = relay.device(of: "alice", named: name)
        let path = try path(name)
        let container = try await open(phone, path)
        try save((0..<40).map { Memo("m\($0)", "in step \($0)") }, to: container)
        try await sync(container)
        try save((0..<3).map { Memo("new\($0)", "unsent \($0)") }, to: container)
        await container.close()
        let laptop = try await open(relay.device(of: "alice", named: name + "-laptop"), try self.path(name + "-laptop"))
        try await sync(laptop)
        return (phone, path, laptop)
    }

    @Test func anOlderFileCatchesUpAndSendsItsUnsentChanges() async throws {
        let (phone, path, laptop) = try await prepare("older")
        let older = try self.path("older-copy")
        try FileManager.default.removeItem(atPath: (older as NSString).deletingLastPathComponent)
        try FileManager.default.copyItem(
            atPath: (path as NSString).deletingLastPathComponent,
            toPath: (older as NSString).deletingLastPathComponent
        )
        // The newer file continues for a while, and so does another device.
        let newer = try await open(phone, path)
        try await sync(newer)
        try save([Memo("m1", "changed later"), Memo("late", "later")], to: newer)
        try await sync(newer)
        await newer.close()
        try save([Memo("m2", "changed there")], to: laptop)
        try await sync(laptop)

        let container = try await open(phone, older)
        try save([Memo("again", "unsent too")], to: container)
        for _ in 0..<2 {
            try await sync(container)
            try await sync(laptop)
        }
        let (here, there) = (try texts(container), try texts(laptop))
        #expect(here == there)
        #expect(here.count == 45 && here["late"] == "later" && here["again"] == "unsent too")
        #expect(here["m1"] == "changed later" && here["m2"] == "changed there")
        for number in 0..<3 { #expect(here["new\(number)"] == "unsent \(number)") }
        await container.close()
        await laptop.close()
    }

    @Test(arguments: 1...16) func aDamagedFileOpensOrIsRefusedWithoutHarmToOtherDevices(seed: Int) async throws {
        let (phone, path, laptop) = try await prepare("damaged\(seed)")
        var bytes = [UInt8](FileManager.default.contents(atPath: path) ?? Data())
        let pages = bytes.count / 4_096
        try #require(pages > 4)
        let page = (seed * 7_919) % pages
        let range = page * 4_096..<(page + 1) * 4_096
        switch seed % 4 {
        case 0: bytes.removeLast(bytes.count - (bytes.count * (seed % 7 + 1)) / 9)
        case 1: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4_096))
        case 2: bytes.replaceSubrange(range, with: (0..<4_096).map { UInt8(truncatingIfNeeded: $0 &* seed &+ 13) })
        default: bytes.replaceSubrange(range, with: bytes[..<4_096])
        }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        do {
            let container = try await open(phone, path)
            for _ in 0..<2 { try await sync(container) }
            _ = try texts(container)
            await container.close()
        } catch {
            #expect(!"\(error)".isEmpty && !"\(error.localizedDescription)".isEmpty)
        }
        try await sync(laptop)
        let there = try texts(laptop)
        for number in 0..<40 {
            #expect(there["m\(number)"] == "in step \(number)", "seed \(seed): the others lost m\(number)")
        }
        await laptop.close()
        // After the file is deleted, the mirror fetches everything again.
        for ending in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + ending) }
        let fresh = try await open(phone, path)
        try await sync(fresh)
        #expect(try texts(fresh) == there)
        await fresh.close()
    }
}
