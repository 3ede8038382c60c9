import Foundation
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The only entity of the mirrored programs.
struct Item: SyncedRecord, Equatable {
    var id = RecordName()
    var a: String?
    var b: String?

    init() {}
    init(id: RecordName) { self.id = id }
}

/// An application with mirrors of the private database, of the private and shared databases, or of the public database.
final class MirrorProgram: ErasingProgram, @unchecked Sendable {
    enum Kind {
        case own
        case sharing
        case publicDatabase
    }

    // Unchecked because of `device`, `made` and `deleted`: only the simulation's thread accesses them, between two
    // steps.
    private(set) var device: TestDevice
    let kind: Kind
    private let userName: String
    private let checker: Checker
    private let container = Mutex<MirroredContainer?>(nil)
    /// The names of objects created and deleted on this device.
    private(set) var made: Set<String> = []
    private(set) var deleted: Set<String> = []

    init(_ device: TestDevice, _ kind: Kind = .own, userName: String, checker: Checker) {
        self.device = device
        self.kind = kind
        self.checker = checker
        self.userName = userName
        begin(on: device)
    }

    func releaseStores() {
        let ended = container.withLock { container in
            defer { container = nil }
            return container
        }
        ended?.abandon()
    }

    func begin(on device: TestDevice) {
        self.device = device
        releaseStores()
        let (checker, kind) = (checker, kind)
        Task(executorPreference: device.process) { [weak self] in
            do {
                let model = MirrorModel(Item.self)
                let made =
                    switch kind {
                    case .own: try await device.mirror(of: model)
                    case .sharing: try await device.sharingMirror(of: model)
                    case .publicDatabase: try await device.mirror(of: model, scope: .public)
                    }
                self?.container.withLock { $0 = made }
            } catch {
                checker.reportViolation("k", "\(device.name) cannot open its store: \(error)")
            }
        }
    }

    /// In the public database, each program writes records with names of its own; it may only read those of others.
    private func name(_ record: String) -> RecordName {
        RecordName(kind == .publicDatabase ? "\(device.user ?? "")-\(record)" : record)
    }

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        change { context in
            let id = name(record)
            if try context.object(Item.self, id) == nil {
                try context.insert(Item(id: id))
                made.insert(id.text)
            }
            try context.edit(Item.self, id) { item in
                if field == "a" { item.a = value } else { item.b = value }
            }
        }
    }

    func delete(_ zone: Int, _ record: String) {
        // Clients do not learn of deletions in the public database.
        guard kind != .publicDatabase else { return }
        change { context in
            if try context.object(Item.self, name(record)) != nil {
                try context.delete(Item.self, id: name(record))
                deleted.insert(name(record).text)
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
            // Another user's object, which is read-only.
            if let error = error as? MirrorError, case .permissionFailure = error.code { return }
            checker.reportViolation("a", "\(device.name) cannot save: \(error)")
        }
    }

    // MARK: Sharing

    static let sharedZone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.share.S")

    /// Adds an object to the share, creating the share if needed.
    func shareItem(_ record: String) {
        guard let container = container.withLock({ $0 }) else { return }
        let (device, checker, id) = (device, checker, name(record))
        Task(executorPreference: device.process) {
            do {
                guard let object = try container.newBackgroundContext().object(Item.self, id) else { return }
                let database = device.privateDatabase
                let shareID = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.sharedZone)
                var share = try? await database.record(for: shareID) as? CKShare
                if share == nil {
                    _ = try await database.save(CKRecordZone(zoneID: Self.sharedZone))
                    let new = CKShare(recordZoneID: Self.sharedZone)
                    new.publicPermission = .readWrite
                    share = try await database.save(new) as? CKShare
                }
                let context = container.newBackgroundContext()
                _ = try await container.share([context.objectID(of: object)], to: share)
                checker.note("item shared")
            } catch {
                checker.note("item not shared: \(error)")
            }
        }
    }

    /// Joins the share of another program.
    func join(_ owner: MirrorProgram) {
        guard let container = container.withLock({ $0 }) else { return }
        let (device, checker, other) = (device, checker, owner.device)
        Task(executorPreference: device.process) {
            do {
                let shareID = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.sharedZone)
                guard let url = (try await other.privateDatabase.record(for: shareID) as? CKShare)?.url else { return }
                let metadata = try await device.container.shareMetadata(for: url)
                guard let place = container.descriptions.last?.url else { return }
                try await container.acceptShareInvitations(from: [metadata], into: container.store(at: place))
                checker.note("items joined")
            } catch {
                checker.note("items not joined: \(error)")
            }
        }
    }

    /// Leaves the share of another program.
    func leave() {
        onShares(of: container.withLock { $0?.descriptions.last?.url }) { container, share, store in
            if !share.isOwner { try await container.leaveShare(share, in: store) }
        }
    }

    /// Makes the public link read-only or read-write.
    func restrict(isReadOnly: Bool) {
        onShares(of: container.withLock { $0?.descriptions.first?.url }) { container, share, store in
            guard share.isOwner else { return }
            share.publicPermission = isReadOnly ? .readOnly : .readWrite
            try await container.persistUpdatedShare(share, in: store)
        }
    }

    /// Stops sharing: participants lose access, and all objects move back to the owner's zone.
    func stopSharing() {
        onShares(of: container.withLock { $0?.descriptions.first?.url }) { container, share, store in
            if share.isOwner { try await container.stopSharing(share, in: store) }
        }
    }

    private func onShares(
        of place: URL?,
        _ work: @escaping @Sendable (MirroredContainer, CKShare, StoreID) async throws -> Void
    ) {
        guard let container = container.withLock({ $0 }), let place else { return }
        let checker = checker
        Task(executorPreference: device.process) {
            do {
                let store = container.store(at: place)
                for share in try await container.fetchShares(in: store) { try await work(container, share, store) }
                checker.note("shares ended")
            } catch {
                checker.note("shares not ended: \(error)")
            }
        }
    }

    func erase() { device.erase(container.withLock { $0 }, checker) }
    func resetKeys() { device.resetKeys(container.withLock { $0 }, checker) }

    func retry() {}

    /// The user's own objects and those shared by others are compared separately, because their names can be equal.
    private var places: [ZoneName] {
        let own = ZoneName(owner: userName, name: "mirrored")
        return kind == .sharing ? [own, ZoneName(owner: userName, name: "mirrored of others")] : [own]
    }

    func localRecords() -> [ZoneName: [String: [String: String]]]? {
        guard let container = container.withLock({ $0 }) else { return nil }
        let context = container.newBackgroundContext()
        var all: [ZoneName: [String: [String: String]]] = [:]
        for (place, description) in zip(places, container.descriptions) {
            var request = FetchRequest(Item.self)
            request.affectedStores = [container.store(at: description.url)]
            guard let items = try? context.fetch(request) else { return nil }
            var records: [String: [String: String]] = [:]
            for item in items {
                var fields: [String: String] = [:]
                fields["CD_a"] = item.a
                fields["CD_b"] = item.b
                records[item.id.text] = fields
            }
            all[place] = records
        }
        return all
    }

    /// All items of the mirrored databases that this user may see.
    func expected(from snapshot: StoreSnapshot) -> [ZoneName: [String: Version]] {
        var all: [ZoneName: [String: Version]] = [:]
        for place in places { all[place] = [:] }
        for name in snapshot.zones.keys where isMirrored(name) {
            guard let records = snapshot.visible(name, to: userName) else { continue }
            let place = places[kind == .sharing && name.owner != userName ? 1 : 0]
            for (record, version) in records where version.fields["CD_entityName"] == "Item" {
                all[place]?[record] = version
            }
        }
        return all
    }

    private func isMirrored(_ zone: ZoneName) -> Bool {
        switch kind {
        case .own: zone.owner == userName
        case .sharing: !zone.isPublic
        case .publicDatabase: zone.isPublic
        }
    }

    func unsent() -> [String] { [] }
}
