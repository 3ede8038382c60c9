import DiskTrials
import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A device's mirror on a disk that fails or loses power: the store opens again, sync continues, and finally the device
/// and the relay hold the same records.
///
/// See Sync.md, "What a client stores". A mirror's saves survive the end of the process. After a power cut the mirror
/// promises only a consistent earlier state, so changes that were saved and not yet sent may be lost.
@Suite(.timeLimit(.minutes(15))) struct MirrorDiskTests {
    private let relay: TestRelay
    private let folder: DiskFolder

    init() throws {
        relay = try TestRelay()
        folder = try DiskFolder()
    }

    struct Memo: SyncedRecord, Equatable {
        var id = RecordName()
        var text = ""
        init() {}
        init(_ id: String, _ text: String) {
            self.id = RecordName(id)
            self.text = text
        }
    }

    private func open(_ device: TestDevice, _ folder: String) async throws -> MirroredContainer {
        let url = URL(fileURLWithPath: folder + "/private.sqlite")
        let description = StoreDescription(url: url, cloud: CloudOptions(container: device.container, scope: .private))
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let container = MirroredContainer(model: MirrorModel(Memo.self), stores: [description], conditions: conditions)
        try await container.loadStores()
        return container
    }

    private func save(_ memos: [Memo], to container: MirroredContainer) throws {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        for memo in memos { try context.insert(memo) }
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

    static let effects: [FaultyDisk.Fault.Effect] = [.fails, .isFull, .isCutShort, .losesPower]

    @Test(arguments: effects) func savesAndSyncRecoverFromADiskFault(effect: FaultyDisk.Fault.Effect) async throws {
        let laptop = try await open(relay.device(of: "alice", named: "laptop"), makeFolder("laptop"))
        let offset = Self.effects.firstIndex(of: effect) ?? 0
        var number = 1 + offset
        var isStruck = true
        while isStruck {
            guard number < 1_000 else { return #expect(Bool(false), "1,000 operations failed and there are more") }
            isStruck = try await tryOnce(effect, number, laptop)
            // Each operation gets one of the effects.
            number += isStruck ? 4 : 0
        }
        #expect(number > 40, "too few operations failed")
    }

    private func makeFolder(_ name: String) throws -> String {
        let path = "\(folder.path)/\(name)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    /// Runs a phone whose disk fails while it saves, sends and fetches, then reopens its store.
    ///
    /// Returns whether the fault occurred.
    private func tryOnce(_ effect: FaultyDisk.Fault.Effect, _ number: Int, _ laptop: MirroredContainer) async throws
        -> Bool
    {
        let name = "\(effect)-\(number)"
        var home = try makeFolder(name)
        let disk = FaultyDisk(folder: home)
        defer { disk.detach() }
        let phone = relay.device(of: "alice", named: name)
        var kept: Set<String> = []
        var maybe: Set<String> = []
        let first = try await open(phone, home)
        try save([Memo("\(name)-before", "b")], to: first)
        try await sync(first)
        try save([Memo("\(name)-theirs", "t")], to: laptop)
        try await sync(laptop)
        disk.arm(.init(number: number, effect, lasts: effect == .isFull))
        for round in 0..<2 {
            let both = ["\(name)-\(round)x", "\(name)-\(round)y"]
            do {
                try save(both.map { Memo($0, "mine") }, to: first)
                kept.formUnion(both)
            } catch {
                maybe.formUnion(both)
                #expect(!"\(error)".isEmpty)
            }
            try? await sync(first)
        }
        let isStruck = disk.disarm()
        if !isStruck { #expect(maybe.isEmpty, "a save failed on a good disk") }
        if effect != .losesPower { disk.heal() }
        await first.close()
        if effect == .losesPower, isStruck {
            home = try makeFolder(name + "-left")
            try disk.cutPower(number % 2 == 0 ? .keepsNothing : .keepsSome(seed: UInt64(number)), leaving: home)
            maybe.formUnion(kept)
            kept = []
        }
        let second = try await open(phone, home)
        for _ in 0..<2 {
            try await sync(second)
            try await sync(laptop)
        }
        let (here, there) = (try texts(second), try texts(laptop))
        #expect(here == there, "\(name): phone and laptop differ")
        #expect(here["\(name)-before"] == "b" && here["\(name)-theirs"] == "t", "\(name): synced memos are gone")
        for memo in kept { #expect(here[memo] == "mine", "\(name): \(memo) was saved and is gone") }
        for round in 0..<2 {
            let isTorn = (here["\(name)-\(round)x"] == nil) != (here["\(name)-\(round)y"] == nil)
            #expect(!isTorn, "\(name): only half of a save is there")
        }
        let store = second.store(at: URL(fileURLWithPath: home + "/private.sqlite"))
        #expect(try await second.pendingExportCount(store) == 0, "\(name): the outbox is not empty")
        await second.close()
        let file = try DatabaseQueue(path: home + "/private.sqlite")
        #expect(try await file.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        return isStruck
    }
}
