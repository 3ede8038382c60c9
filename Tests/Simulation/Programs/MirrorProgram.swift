import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The one entity of the mirrored programs.
struct Item: SyncedRecord, Equatable {
    var id = RecordName()
    var a: String?
    var b: String?

    init() {}
    init(id: RecordName) { self.id = id }
}

/// An application over a mirror of the user's private database.
final class MirrorProgram: Program, @unchecked Sendable {
    // Unchecked for `device`: touched by the thread that steps the world, between two steps.

    private(set) var device: TestDevice
    private let zone: ZoneName
    private let judge: Judge
    private let container = Mutex<MirroredContainer?>(nil)

    init(_ device: TestDevice, userName: String, judge: Judge) {
        self.device = device
        self.judge = judge
        zone = ZoneName(owner: userName, name: "com.apple.coredata.cloudkit.zone")
        begin(on: device)
    }

    func begin(on device: TestDevice) {
        self.device = device
        container.withLock { $0 = nil }
        let judge = judge
        Task(executorPreference: device.party) { [weak self] in
            do {
                let made = try await device.mirror(of: MirrorModel(Item.self))
                self?.container.withLock { $0 = made }
            } catch {
                judge.accuse("k", "\(device.name) cannot open its store: \(error)")
            }
        }
    }

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        change { context in
            let id = RecordName(record)
            if try context.object(Item.self, id) == nil { try context.insert(Item(id: id)) }
            try context.edit(Item.self, id) { item in
                if field == "a" { item.a = value } else { item.b = value }
            }
        }
    }

    func delete(_ zone: Int, _ record: String) {
        change { context in
            if try context.object(Item.self, RecordName(record)) != nil {
                try context.delete(Item.self, id: RecordName(record))
            }
        }
    }

    private func change(_ body: (MirrorContext) throws -> Void) {
        guard let container = container.withLock({ $0 }) else { return }
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        do {
            try body(context)
            try context.save()
        } catch {
            judge.accuse("a", "\(device.name) cannot save: \(error)")
        }
    }

    func retry() {}

    func holdings() -> [ZoneName: [String: [String: String]]]? {
        guard let container = container.withLock({ $0 }),
            let items = try? container.newBackgroundContext().fetch(Item.self)
        else { return nil }
        var records: [String: [String: String]] = [:]
        for item in items {
            var fields: [String: String] = [:]
            fields["CD_a"] = item.a
            fields["CD_b"] = item.b
            records[item.id.text] = fields
        }
        return [zone: records]
    }

    func unsent() -> [String] { [] }
}
