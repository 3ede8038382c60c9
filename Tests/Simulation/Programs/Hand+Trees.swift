import Synchronization
import ZoneKit
import ZoneTesting

/// Hierarchies: a root with two children, and a separate record that no other user may see.
extension Hand {
    static let tree = CKRecordZone.ID(zoneName: "Tree")

    static func leaf(_ name: String, of owner: String = CKCurrentUserDefaultName) -> CKRecord.ID {
        CKRecord.ID(recordName: name, zoneID: CKRecordZone.ID(zoneName: tree.zoneName, ownerName: owner))
    }

    func plantTree() async throws {
        for name in ["t0", "t1", "t2", "beside"] {
            let record = CKRecord(recordType: "Item", recordID: Self.leaf(name))
            record["a"] = "tree"
            if name.hasPrefix("t"), name != "t0" { record.setParent(Self.leaf("t0")) }
            _ = try await database.save(record)
        }
    }

    func shareTree() {
        act("tree shared") { hand in
            let root = try await hand.database.record(for: Self.leaf("t0"))
            if let known = root.share {
                let share = try await hand.database.record(for: known.recordID)
                (share as? CKShare)?.publicPermission = .readWrite
                _ = try await hand.database.save(share)
            } else {
                let share = CKShare(rootRecord: root, shareID: Self.leaf("tree share"))
                share.publicPermission = .readWrite
                _ = try await hand.database.modifyRecords(saving: [root, share], deleting: [])
            }
        }
    }

    /// Closes the share's public link, or deletes the share.
    func closeTree(isEnd: Bool, _ removal: Judge.Removal) {
        act("tree closed") { hand in
            let joins = hand.judge.joinCount(removal)
            let root = try await hand.database.record(for: Self.leaf("t0"))
            guard let known = root.share else { return }
            if isEnd {
                _ = try await hand.database.deleteRecord(withID: known.recordID)
            } else {
                let share = try await hand.database.record(for: known.recordID)
                (share as? CKShare)?.publicPermission = .none
                _ = try await hand.database.save(share)
            }
            hand.judge.isRemoved(removal, since: joins)
        }
    }

    func joinTree(_ owner: Hand, _ removal: Judge.Removal) {
        act("tree joined") { hand in
            let root = try await owner.database.record(for: Self.leaf("t0"))
            guard let known = root.share, let share = try await owner.database.record(for: known.recordID) as? CKShare,
                let url = share.url
            else { return }
            let metadata = try await hand.device.container.shareMetadata(for: url)
            hand.judge.joins(removal)
            _ = try await hand.device.container.accept(metadata)
        }
    }

    /// Edits a leaf as the owner (`owner` is `nil`) or as a participant.
    func editLeaf(_ name: String, of owner: String?, _ value: String) {
        act("leaf") { hand in
            let database = owner == nil ? hand.database : hand.device.sharedDatabase
            let record = try await database.record(for: Self.leaf(name, of: owner ?? CKCurrentUserDefaultName))
            record["a"] = value
            _ = try await database.save(record)
        }
    }

    /// Moves a leaf below the root or away from it, which changes its visibility to participants.
    func regraft(_ name: String) {
        act("regraft") { hand in
            let record = try await hand.database.record(for: Self.leaf(name))
            record.setParent(record.parent == nil ? Self.leaf("t0") : nil)
            _ = try await hand.database.save(record)
        }
    }

    /// Saves an encrypted value, which the relay must never be able to read.
    func whisper(_ record: Int, _ value: String) {
        judge.state.withLock { _ = $0.secrets.insert(value) }
        act("whisper") { hand in
            let id = CKRecord.ID(recordName: "secret\(record)", zoneID: CKRecordZone.ID(zoneName: "Far"))
            let found = try? await hand.database.record(for: id)
            let item = found ?? CKRecord(recordType: "Item", recordID: id)
            item.encryptedValues["secret"] = value
            _ = try await hand.database.save(item)
            let again = try await hand.database.record(for: id)
            guard let read = again.encryptedValues["secret"] as String? else {
                return hand.judge.accuse("f", "an encrypted value cannot be read by its own user")
            }
            if !hand.judge.state.withLock({ $0.secrets.contains(read) }) {
                hand.judge.accuse("i", "an encrypted value is \(read), which no client wrote")
            }
        }
    }

    /// Stops sharing altogether.
    func endShare(_ removal: Judge.Removal) {
        act("share ended") { hand in
            let joins = hand.judge.joinCount(removal)
            let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.zone(0))
            _ = try await hand.database.deleteRecord(withID: id)
            hand.judge.isRemoved(removal, since: joins)
        }
    }
}
