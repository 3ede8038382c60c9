import Foundation
import Records
import RelayAPI
import Synchronization
import Wire
import ZoneKit
import ZoneTesting

/// A user who calls the API directly, for operations that engines and mirrors do not perform.
final class APIClient: Sendable {
    let device: TestDevice
    let checker: Checker
    private let seen = Mutex<[CKRecord.ID: CKRecord]>([:])

    init(_ device: TestDevice, checker: Checker) {
        self.device = device
        self.checker = checker
    }

    var database: CKDatabase { device.privateDatabase }

    /// Runs work asynchronously on the device's executor.
    func act(_ what: String, _ work: @escaping @Sendable (APIClient) async throws -> Void) {
        Task(executorPreference: device.process) { [self] in
            do {
                try await work(self)
                checker.note("\(what) done")
            } catch {
                checker.note("\(what) failed: \((error as? CKError)?.code ?? .internalError)")
            }
        }
    }

    static func zone(_ number: Int) -> CKRecordZone.ID { CKRecordZone.ID(zoneName: "Z\(number)") }

    func makeZones() {
        act("zones") { client in
            for zone in [Self.zone(0), Self.zone(1), CKRecordZone.ID(zoneName: "Far"), Self.tree, Self.once] {
                _ = try await client.database.save(CKRecordZone(zoneID: zone))
            }
            let family = Step.familyNames.map {
                CKRecord(recordType: "Item", recordID: CKRecord.ID(recordName: $0, zoneID: Self.zone(0)))
            }
            for record in family { record["a"] = "family" }
            for record in family { _ = try await client.database.save(record) }
            try await client.plantTree()
        }
    }

    /// Recreates the zones that every program writes to, in case a restored backup lacks them.
    func makeZonesAgain() {
        act("zones again") { client in
            for number in 0..<2 { _ = try await client.database.save(CKRecordZone(zoneID: Self.zone(number))) }
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
        act("group") { client in
            let ids = Step.groupNames.map { CKRecord.ID(recordName: $0, zoneID: Self.zone(zone)) }
            if looksFirst, let first = try? await client.database.record(for: ids[0]) {
                client.seen.withLock { $0[ids[0]] = first }
            }
            let records = client.seen.withLock { seen in
                ids.map { seen[$0]?.copy() as? CKRecord ?? CKRecord(recordType: "Item", recordID: $0) }
            }
            for record in records { record["a"] = value }
            let results = try await client.database.modifyRecords(saving: records, deleting: [], atomically: true)
            client.take(results.saveResults)
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
        act("race") { client in
            let id = CKRecord.ID(recordName: "race\(record)", zoneID: CKRecordZone.ID(zoneName: "Far"))
            let start = try? await client.database.record(for: id)
            let base = start ?? CKRecord(recordType: "Item", recordID: id)
            await withTaskGroup(of: Void.self) { group in
                for side in ["left", "right"] {
                    guard let copy = base.copy() as? CKRecord else { continue }
                    copy["a"] = "\(value)\(side)~"
                    group.addTask { _ = try? await client.database.save(copy) }
                }
            }
        }
    }

    /// Moves the family from zone 0 to the zone `Far`, or back.
    func move() {
        act("move") { client in
            let connection = client.device.connection
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
        act("share") { client in
            let share = (try? await client.share()) ?? CKShare(recordZoneID: Self.zone(0))
            share.publicPermission = .readWrite
            _ = try await client.database.save(share)
        }
    }

    /// Joins the share of another user.
    func join(_ owner: APIClient, _ removal: Checker.Removal) {
        act("join") { client in
            guard let url = try await owner.share().url else { return }
            let metadata = try await client.device.container.shareMetadata(for: url)
            client.checker.joinStarted(removal)
            _ = try await client.device.container.accept(metadata)
        }
    }

    /// Closes the share's public link, which removes all participants who joined by it.
    func closeShare(_ removal: Checker.Removal) {
        act("share closed") { client in
            let joins = client.checker.joinCount(removal)
            let share = try await client.share()
            share.publicPermission = .none
            _ = try await client.database.save(share)
            // The removal is acknowledged: from the next request on, the participant must see nothing of the zone.
            client.checker.removalConfirmed(removal, since: joins)
        }
    }

    /// Makes the public link read-only or read-write.
    func restrict(isReadOnly: Bool) {
        act("share restricted") { client in
            let share = try await client.share()
            guard share.recordChangeTag != nil, share.publicPermission != .none else { return }
            share.publicPermission = isReadOnly ? .readOnly : .readWrite
            _ = try await client.database.save(share)
        }
    }

    /// Deletes the zone with its share and all of its records.
    func deleteSharedZone(_ removal: Checker.Removal) {
        act("zone 0 deleted") { client in
            let joins = client.checker.joinCount(removal)
            _ = try await client.database.deleteRecordZone(withID: Self.zone(0))
            client.checker.removalConfirmed(removal, since: joins)
        }
    }

    /// Leaves a share by deleting its zone or its share record from the shared database.
    func leave(_ removal: Checker.Removal, byZone: Bool) {
        act("share left") { client in
            let joins = client.checker.joinCount(removal)
            let zone = CKRecordZone.ID(zoneName: removal.zone.name, ownerName: removal.zone.owner)
            let (database, share) = (client.device.sharedDatabase, Self.shareName)
            if byZone {
                _ = try await database.deleteRecordZone(withID: zone)
            } else {
                _ = try await database.deleteRecord(withID: CKRecord.ID(recordName: share, zoneID: zone))
            }
            client.checker.removalConfirmed(removal, since: joins)
        }
    }

    // MARK: Public database

    func post(_ record: Int, _ value: String) {
        act("post") { client in
            let post = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "post\(record)"))
            post["a"] = value
            let results = try await client.device.publicDatabase.modifyRecords(
                saving: [post],
                deleting: [],
                savePolicy: .allKeys
            )
            guard case .success? = results.saveResults[post.recordID] else { return }
            let found = try await client.device.publicDatabase.record(for: post.recordID)
            if (found["a"] as String?) == nil { client.checker.reportViolation("i", "a post without its text") }
        }
    }
}

/// Hierarchies: a root with two children, and a separate record that no other user may see.
extension APIClient {
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
        act("tree shared") { client in
            let root = try await client.database.record(for: Self.leaf("t0"))
            if let known = root.share {
                let share = try await client.database.record(for: known.recordID)
                (share as? CKShare)?.publicPermission = .readWrite
                _ = try await client.database.save(share)
            } else {
                let share = CKShare(rootRecord: root, shareID: Self.leaf("tree share"))
                share.publicPermission = .readWrite
                _ = try await client.database.modifyRecords(saving: [root, share], deleting: [])
            }
        }
    }

    /// Closes the share's public link, or deletes the share.
    func closeTree(isEnd: Bool, _ removal: Checker.Removal) {
        act("tree closed") { client in
            let joins = client.checker.joinCount(removal)
            let root = try await client.database.record(for: Self.leaf("t0"))
            guard let known = root.share else { return }
            if isEnd {
                _ = try await client.database.deleteRecord(withID: known.recordID)
            } else {
                let share = try await client.database.record(for: known.recordID)
                (share as? CKShare)?.publicPermission = .none
                _ = try await client.database.save(share)
            }
            client.checker.removalConfirmed(removal, since: joins)
        }
    }

    func joinTree(_ owner: APIClient, _ removal: Checker.Removal) {
        act("tree joined") { client in
            let root = try await owner.database.record(for: Self.leaf("t0"))
            guard let known = root.share, let share = try await owner.database.record(for: known.recordID) as? CKShare,
                let url = share.url
            else { return }
            let metadata = try await client.device.container.shareMetadata(for: url)
            client.checker.joinStarted(removal)
            _ = try await client.device.container.accept(metadata)
        }
    }

    /// Edits a leaf as the owner (`owner` is `nil`) or as a participant.
    func editLeaf(_ name: String, of owner: String?, _ value: String) {
        act("leaf") { client in
            let database = owner == nil ? client.database : client.device.sharedDatabase
            let record = try await database.record(for: Self.leaf(name, of: owner ?? CKCurrentUserDefaultName))
            record["a"] = value
            _ = try await database.save(record)
        }
    }

    /// Moves a leaf below the root or away from it, which changes its visibility to participants.
    func reparent(_ name: String) {
        act("regraft") { client in
            let record = try await client.database.record(for: Self.leaf(name))
            record.setParent(record.parent == nil ? Self.leaf("t0") : nil)
            _ = try await client.database.save(record)
        }
    }

    /// Saves an encrypted value, which the relay must never be able to read.
    func saveEncrypted(_ record: Int, _ value: String) {
        checker.state.withLock { _ = $0.secrets.insert(value) }
        act("whisper") { client in
            let id = CKRecord.ID(recordName: "secret\(record)", zoneID: CKRecordZone.ID(zoneName: "Far"))
            let found = try? await client.database.record(for: id)
            let item = found ?? CKRecord(recordType: "Item", recordID: id)
            item.encryptedValues["secret"] = value
            _ = try await client.database.save(item)
            let again = try await client.database.record(for: id)
            guard let read = again.encryptedValues["secret"] as String? else {
                return client.checker.reportViolation("f", "an encrypted value cannot be read by its own user")
            }
            if !client.checker.state.withLock({ $0.secrets.contains(read) }) {
                client.checker.reportViolation("i", "an encrypted value is \(read), which no client wrote")
            }
        }
    }

    /// Stops sharing altogether.
    func endShare(_ removal: Checker.Removal) {
        act("share ended") { client in
            let joins = client.checker.joinCount(removal)
            let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.zone(0))
            _ = try await client.database.deleteRecord(withID: id)
            client.checker.removalConfirmed(removal, since: joins)
        }
    }
}

/// One-time links.
extension APIClient {
    static let once = CKRecordZone.ID(zoneName: "Once")

    private var shareOfOnce: CKShare {
        get async throws {
            let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.once)
            do {
                return try await database.record(for: id) as? CKShare ?? CKShare(recordZoneID: Self.once)
            } catch let error as CKError where error.code == .unknownItem {
                return CKShare(recordZoneID: Self.once)
            }
        }
    }

    func offerLink() {
        act("link offered") { client in
            let share = try await client.shareOfOnce
            let invitee = CKShare.Participant.oneTimeURLParticipant()
            invitee.permission = .readWrite
            share.addParticipant(invitee)
            guard let saved = try await client.database.save(share) as? CKShare else { return }
            let links = saved.participants.compactMap { saved.oneTimeURL(for: $0.participantID)?.absoluteString }
            client.checker.state.withLock { $0.links.formUnion(links) }
        }
    }

    /// Opens one of all links offered so far; the relay must admit only one user per link.
    func takeLink(_ number: Int) {
        act("link taken") { client in
            let links = client.checker.state.withLock { $0.links.sorted() }
            guard !links.isEmpty, let url = URL(string: links[number % links.count]) else { return }
            let metadata = try await client.device.container.shareMetadata(for: url)
            client.checker.joinStarted(client.removalFromOnce(metadata))
            let user = client.device.user ?? ""
            client.checker.linkOpened(url.absoluteString, user)
            _ = try await client.device.container.accept(metadata)
            client.checker.joinedByLink(user, by: url.absoluteString)
        }
    }

    private func removalFromOnce(_ metadata: CKShare.Metadata) -> Checker.Removal {
        let owner = metadata.share.recordID.zoneID.ownerName
        return Checker.Removal(
            user: checker.names(device.user ?? ""),
            zone: ZoneName(owner: owner, name: Self.once.zoneName)
        )
    }

    /// Removes all participants and revokes unused links.
    func withdrawLinks(from people: [Checker.Removal]) {
        act("links withdrawn") { client in
            let joins = people.map { client.checker.joinCount($0) }
            let share = try await client.shareOfOnce
            guard share.recordChangeTag != nil else { return }
            for participant in share.participants where participant.role != .owner {
                share.removeParticipant(participant)
            }
            _ = try await client.database.save(share)
            for (removal, count) in zip(people, joins) { client.checker.removalConfirmed(removal, since: count) }
        }
    }
}

/// Pictures: records whose only field is an asset. Several records can have the same content.
extension APIClient {
    /// Zones with different visibility: `Far` is private, `Z0` is shared as a whole, and the tree is shared from its
    /// root.
    static let pictureZones = ["Far", "Z0", "Z1", tree.zoneName]

    /// Uploads a file and saves a record with it.
    func putPicture(_ number: Int, in zone: String, _ content: [UInt8]) {
        act("picture") { client in
            let place = #""zoneID":{"zoneName":"\#(zone)"}"#
            let ask =
                #"{\#(place),"tokens":[{"recordType":"Picture","fieldName":"file","recordName":"pic\#(number)"}]}"#
            let said = try await client.call("assets/upload", ask)
            guard let address = try said["tokens"]?.elements().first?["url"]?.string(),
                let carrier = client.checker.files.withLock({ $0 }),
                let answer = number % 2 == 0
                    ? carrier.put(content, at: address) : carrier.putInTwo(content, at: address),
                let asset = try JSONDocument(parsing: answer.body).root["singleFile"]
            else { return }
            let checksum = try asset.required("fileChecksum").string()
            client.checker.uploaded(content, as: checksum)
            try await client.savePicture(number, in: zone, asset)
        }
    }

    /// Saves a record with the asset of another record.
    func copyPicture(_ number: Int, in zone: String, from other: Int) {
        act("picture copied") { client in
            let place = #""zoneID":{"zoneName":"\#(zone)"}"#
            let ask = #"{\#(place),"assets":[{"recordName":"pic\#(other)","fieldName":"file"}]}"#
            let said = try await client.call("assets/rereference", ask)
            guard let asset = try said["assets"]?.elements().first, asset["receipt"] != nil else { return }
            try await client.savePicture(number, in: zone, asset)
        }
    }

    private func savePicture(_ number: Int, in zone: String, _ asset: JSONValue) async throws {
        let checksum = try asset.required("fileChecksum").string()
        let (size, receipt) = (try asset.required("size").int64(), try asset.required("receipt").string())
        let value = #"{"fileChecksum":"\#(checksum)","size":\#(size),"receipt":"\#(receipt)"}"#
        // Below the tree's root, so that the participants see it.
        let parent = zone == Self.tree.zoneName ? #","parent":{"recordName":"t0"}"# : ""
        let record =
            #"{"recordName":"pic\#(number)","recordType":"Picture"\#(parent),"fields":{"file":{"value":\#(value),"type":"ASSETID"}}}"#
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#
        _ = try await call("records/modify", body, isWrite: true)
    }

    func deletePicture(_ number: Int, in zone: String) {
        act("picture deleted") { client in
            let body =
                #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"forceDelete","record":{"recordName":"pic\#(number)"}}]}"#
            _ = try await client.call("records/modify", body, isWrite: true)
        }
    }

    /// Tries to save a record with an asset of which the caller knows only the checksum.
    func claimPicture(_ number: Int) {
        act("picture claimed") { client in
            let checksums = client.checker.state.withLock { $0.contents.keys.sorted() }
            guard !checksums.isEmpty else { return }
            let checksum = checksums[number % checksums.count]
            let size = client.checker.state.withLock { $0.contents[checksum]?.count ?? 0 }
            let record =
                #"{"recordName":"claim","recordType":"Picture","fields":{"file":{"value":{"fileChecksum":"\#(checksum)","size":\#(size)},"type":"ASSETID"}}}"#
            let said = try await client.call(
                "records/modify",
                #"{"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#,
                isWrite: true
            )
            guard try said["records"]?.elements().first?["serverErrorCode"] == nil else { return }
            client.checker.reportViolation(
                "f",
                "\(client.device.user ?? "") claimed an asset by its checksum alone, and has it now"
            )
        }
    }

    func call(_ operation: String, _ body: String, isWrite: Bool = false) async throws -> JSONValue {
        try await device.connection.send(RelayCall(.private, operation, Array(body.utf8), isWrite: isWrite)).root
    }
}
