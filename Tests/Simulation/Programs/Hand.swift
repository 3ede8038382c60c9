import Records
import Synchronization
import ZoneKit
import ZoneTesting

/// A user who calls the API directly, for operations that engines and mirrors do not perform.
final class Hand: Sendable {
    let device: TestDevice
    let judge: Judge
    private let seen = Mutex<[CKRecord.ID: CKRecord]>([:])

    init(_ device: TestDevice, judge: Judge) {
        self.device = device
        self.judge = judge
    }

    var database: CKDatabase { device.privateDatabase }

    /// Runs work asynchronously on the device's executor.
    func act(_ what: String, _ work: @escaping @Sendable (Hand) async throws -> Void) {
        Task(executorPreference: device.party) { [self] in
            do {
                try await work(self)
                judge.note("\(what) done")
            } catch {
                judge.note("\(what) failed: \((error as? CKError)?.code ?? .internalError)")
            }
        }
    }

    static func zone(_ number: Int) -> CKRecordZone.ID { CKRecordZone.ID(zoneName: "Z\(number)") }

    func makeZones() {
        act("zones") { hand in
            for zone in [Self.zone(0), Self.zone(1), CKRecordZone.ID(zoneName: "Far"), Self.tree, Self.once] {
                _ = try await hand.database.save(CKRecordZone(zoneID: zone))
            }
            let family = Step.familyNames.map {
                CKRecord(recordType: "Item", recordID: CKRecord.ID(recordName: $0, zoneID: Self.zone(0)))
            }
            for record in family { record["a"] = "family" }
            for record in family { _ = try await hand.database.save(record) }
            try await hand.plantTree()
        }
    }

    /// Recreates the zones that every program writes to, in case a restored backup lacks them.
    func makeZonesAgain() {
        act("zones again") { hand in
            for number in 0..<2 { _ = try await hand.database.save(CKRecordZone(zoneID: Self.zone(number))) }
        }
    }

    func makeZone(_ number: Int) {
        act("zone \(number)") { _ = try await $0.database.save(CKRecordZone(zoneID: Self.zone(number))) }
    }

    func deleteZone() { act("zone 1 deleted") { _ = try await $0.database.deleteRecordZone(withID: Self.zone(1)) } }

    /// Saves three records in one atomic batch, each based on its last seen version.
    ///
    /// With `looksFirst`, only the first record's version is refreshed, so that the others may conflict.
    func writeGroup(_ zone: Int, _ value: String, looksFirst: Bool) {
        act("group") { hand in
            let ids = Step.groupNames.map { CKRecord.ID(recordName: $0, zoneID: Self.zone(zone)) }
            if looksFirst, let first = try? await hand.database.record(for: ids[0]) {
                hand.seen.withLock { $0[ids[0]] = first }
            }
            let records = hand.seen.withLock { seen in
                ids.map { seen[$0]?.copy() as? CKRecord ?? CKRecord(recordType: "Item", recordID: $0) }
            }
            for record in records { record["a"] = value }
            let results = try await hand.database.modifyRecords(saving: records, deleting: [], atomically: true)
            hand.take(results.saveResults)
        }
    }

    private func take(_ results: [CKRecord.ID: Result<CKRecord, any Error>]) {
        seen.withLock { seen in
            for (id, result) in results {
                switch result {
                case .success(let record): seen[id] = record
                case .failure(let error as CKError):
                    seen[id] = error.serverRecord ?? (error.code == .unknownItem ? nil : seen[id])
                case .failure: break
                }
            }
        }
    }

    /// Sends two concurrent updates of the same version.
    func race(_ record: Int, _ value: String) {
        act("race") { hand in
            let id = CKRecord.ID(recordName: "race\(record)", zoneID: CKRecordZone.ID(zoneName: "Far"))
            let start = try? await hand.database.record(for: id)
            let base = start ?? CKRecord(recordType: "Item", recordID: id)
            await withTaskGroup(of: Void.self) { group in
                for side in ["left", "right"] {
                    guard let copy = base.copy() as? CKRecord else { continue }
                    copy["a"] = "\(value)\(side)~"
                    group.addTask { _ = try? await hand.database.save(copy) }
                }
            }
        }
    }

    /// Moves the family from zone 0 to the zone `Far`, or back.
    func move() {
        act("move") { hand in
            let connection = hand.device.connection
            for (from, to) in [("Z0", "Far"), ("Far", "Z0")] {
                let names = Step.familyNames.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
                let body =
                    #"{"zoneID":{"zoneName":"\#(from)"},"destinationZoneID":{"zoneName":"\#(to)"},"records":[\#(names)]}"#
                let call = RelayCall(.private, "records/move", Array(body.utf8), isWrite: true)
                if (try? await connection.send(call)) != nil { return }
            }
        }
    }

    // MARK: Sharing

    private static let shareName = CKRecordNameZoneWideShare

    private func share() async throws -> CKShare {
        let id = CKRecord.ID(recordName: Self.shareName, zoneID: Self.zone(0))
        return try await database.record(for: id) as? CKShare ?? CKShare(recordZoneID: id.zoneID)
    }

    func openShare() {
        act("share") { hand in
            let share = (try? await hand.share()) ?? CKShare(recordZoneID: Self.zone(0))
            share.publicPermission = .readWrite
            _ = try await hand.database.save(share)
        }
    }

    /// Joins the share of another user.
    func join(_ owner: Hand, _ removal: Judge.Removal) {
        act("join") { hand in
            guard let url = try await owner.share().url else { return }
            let metadata = try await hand.device.container.shareMetadata(for: url)
            hand.judge.joins(removal)
            _ = try await hand.device.container.accept(metadata)
        }
    }

    /// Closes the share's public link, which removes all participants who joined by it.
    func closeShare(_ removal: Judge.Removal) {
        act("share closed") { hand in
            let joins = hand.judge.joinCount(removal)
            let share = try await hand.share()
            share.publicPermission = .none
            _ = try await hand.database.save(share)
            // The removal is acknowledged: from the next request on, the participant must see nothing of the zone.
            hand.judge.isRemoved(removal, since: joins)
        }
    }

    /// Makes the public link read-only or read-write.
    func restrict(isReadOnly: Bool) {
        act("share restricted") { hand in
            let share = try await hand.share()
            guard share.recordChangeTag != nil, share.publicPermission != .none else { return }
            share.publicPermission = isReadOnly ? .readOnly : .readWrite
            _ = try await hand.database.save(share)
        }
    }

    /// Deletes the zone with its share and all of its records.
    func deleteSharedZone(_ removal: Judge.Removal) {
        act("zone 0 deleted") { hand in
            let joins = hand.judge.joinCount(removal)
            _ = try await hand.database.deleteRecordZone(withID: Self.zone(0))
            hand.judge.isRemoved(removal, since: joins)
        }
    }

    /// Leaves a share by deleting its zone or its share record from the shared database.
    func leave(_ removal: Judge.Removal, byZone: Bool) {
        act("share left") { hand in
            let joins = hand.judge.joinCount(removal)
            let zone = CKRecordZone.ID(zoneName: removal.zone.name, ownerName: removal.zone.owner)
            let (database, share) = (hand.device.sharedDatabase, Self.shareName)
            if byZone {
                _ = try await database.deleteRecordZone(withID: zone)
            } else {
                _ = try await database.deleteRecord(withID: CKRecord.ID(recordName: share, zoneID: zone))
            }
            hand.judge.isRemoved(removal, since: joins)
        }
    }

    // MARK: Public database

    func post(_ record: Int, _ value: String) {
        act("post") { hand in
            let post = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "post\(record)"))
            post["a"] = value
            let results = try await hand.device.publicDatabase.modifyRecords(
                saving: [post],
                deleting: [],
                savePolicy: .allKeys
            )
            guard case .success? = results.saveResults[post.recordID] else { return }
            let found = try await hand.device.publicDatabase.record(for: post.recordID)
            if (found["a"] as String?) == nil { hand.judge.accuse("i", "a post without its text") }
        }
    }
}
