import Foundation
import Records
import RelayAPI
import RelayCore
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Writes that the relay rejects: they are reverted, kept for a decision, and do not block others.
///
/// See Sync.md, "Refused writes", and Permissions.md, "Writes without permission".
@Suite(.timeLimit(.minutes(15))) struct RefusalTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func board(
        _ user: String,
        _ folder: TemporaryFolder? = nil,
        _ change: @escaping (inout StoreDescription) -> Void = { _ in }
    ) async throws -> Mirrored {
        let clock = relay.clock
        var conditions = MirrorConditions()
        conditions.wallClock = { clock.date }
        let device = relay.device(of: user)
        let model = MirrorModel(Post.self)
        return try await Mirrored(device, model: model, scope: .public, folder: folder, conditions: conditions, change)
    }

    private func texts(_ mirror: Mirrored) throws -> [String: String] {
        let posts = try mirror.context().fetch(Post.self)
        return Dictionary(uniqueKeysWithValues: posts.map { ($0.id.text, $0.text) })
    }

    /// Returns Alice's mirror with two posts, and Bob's, which has fetched them and allows saves without permission.
    private func world(
        _ folder: TemporaryFolder? = nil,
        keeps: Bool = false
    ) async throws -> (alice: Mirrored, bob: Mirrored) {
        let alice = try await board("alice")
        _ = try? await alice.container.fetchChanges()
        let context = alice.context()
        for name in ["a", "b"] { try context.insert(Post(id: RecordName(name), text: name)) }
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        let bob = try await board("bob", folder) {
            $0.unpermittedWrites = .allow
            $0.cloud?.keepsRefusedChanges = keeps
        }
        try await bob.container.pollNow()
        return (alice, bob)
    }

    private func write(_ bob: Mirrored) throws {
        let context = bob.context()
        try context.edit(Post.self, "a") { $0.text = "bob was here" }
        try context.delete(Post.self, id: "b")
        try context.insert(Post(id: "c", text: "bob's own"))
        try context.save()
    }

    @Test func rejectedWritesAreRevertedAndOthersAreSent() async throws {
        let folder = try TemporaryFolder()
        let (alice, bob) = try await world(folder)
        try write(bob)
        #expect(try texts(bob) == ["a": "bob was here", "c": "bob's own"])
        let events = bob.container.events
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        // The edit is reverted, the deleted post is restored, and Bob's own post is sent.
        #expect(try texts(bob) == ["a": "a", "b": "b", "c": "bob's own"])
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice) == ["a": "a", "b": "b", "c": "bob's own"])
        for await event in events where event.kind == .export {
            #expect(event.details.contains(.refused(["a", "b"])), "\(event.details)")
            break
        }
        // Rejected writes survive a restart, with all details for a decision.
        await bob.container.close()
        let again = try await board("bob", folder) { $0.unpermittedWrites = .allow }
        let refused = try await again.container.rejectedWrites(again.store)
        #expect(refused.map(\.recordName) == ["a", "b"])
        #expect(refused.map(\.isDeletion) == [false, true])
        #expect(refused.allSatisfy { $0.code == .permissionFailure && $0.tries == 1 && !$0.explanation.isEmpty })
        #expect(refused[0].fields["CD_text"]?.contains("bob was here") == true)
        let data = try await again.container.export(refused[0])
        #expect(String(decoding: data, as: UTF8.self).contains("bob was here"))
        // After a grant the same write succeeds.
        try await relay.changeSchema { $0["CD_Post"]?.grants[.authenticated] = [.create, .write] }
        for write in refused { try await again.container.retry(write) }
        await #expect(throws: MirrorError.self) { try await again.container.retry(refused[0]) }
        try await again.container.sendChanges()
        #expect(try await again.container.rejectedWrites(again.store).isEmpty)
        #expect(try texts(again) == ["a": "bob was here", "c": "bob's own"])
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice)["a"] == "bob was here")
    }

    /// With `keepsRefusedChanges`, objects keep their rejected changes and are marked as refused.
    @Test func rejectedChangesCanBeKept() async throws {
        let (alice, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(try texts(bob) == ["a": "bob was here", "c": "bob's own"])
        let id = ObjectID(store: bob.store, entity: "Post", name: "a")
        #expect(try await bob.container.syncState(of: id) == .refused)
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        // Other devices do not get the rejected changes.
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice)["a"] == "a")
        for write in try await bob.container.rejectedWrites(bob.store) { try await bob.container.discard(write) }
        #expect(try await bob.container.syncState(of: id) == .synced)
    }

    /// The object of a kept deletion has no row, and the deletion can be retried all the same.
    @Test func aKeptDeletionCanBeRetried() async throws {
        let (_, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        try await relay.changeSchema { $0["CD_Post"]?.grants[.authenticated] = [.create, .write] }
        for write in try await bob.container.rejectedWrites(bob.store) { try await bob.container.retry(write) }
        #expect(try await bob.container.pendingExports(bob.store).map(\.name) == ["a", "b"])
        try await bob.container.sendChanges()
        let other = try await board("carol")
        try await other.container.pollNow()
        #expect(try texts(other) == ["a": "bob was here", "c": "bob's own"])
    }

    /// Discarding a kept change restores the relay's version of the object.
    @Test func discardingAKeptChangeRevertsIt() async throws {
        let (alice, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        try edit(bob, "a", "bob again")
        let id = ObjectID(store: bob.store, entity: "Post", name: "a")
        // Later changes of the object are not discarded.
        let first = try await bob.container.rejectedWrites(bob.store)
        for write in first { try await bob.container.discard(write) }
        #expect(try texts(bob) == ["a": "bob again", "b": "b", "c": "bob's own"])
        #expect(try await bob.container.syncState(of: id) == .pending)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        let second = try #require(try await bob.container.rejectedWrites(bob.store).first)
        try await bob.container.discard(second)
        #expect(try texts(bob) == ["a": "a", "b": "b", "c": "bob's own"])
        #expect(try await bob.container.syncState(of: id) == .synced)
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        // Discarding the same write again reverts nothing.
        relay.clock.advance(by: .seconds(60))
        try edit(alice, "a", "alice's")
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        try await bob.container.discard(second)
        #expect(try texts(bob)["a"] == "alice's")
    }

    private func edit(_ mirror: Mirrored, _ name: RecordName, _ text: String) throws {
        let context = mirror.context()
        try context.edit(Post.self, name) { $0.text = text }
        try context.save()
    }

    /// Ten of a thousand writes, including the first, edit objects that the user may only read.
    @Test func tenRejectedWritesOfAThousandDoNotBlockTheOthers() async throws {
        let (alice, bob) = try await world()
        let more = alice.context()
        for number in 0..<10 { try more.insert(Post(id: RecordName("theirs\(number)"), text: "t")) }
        try more.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        let context = bob.context()
        for number in 0..<1_000 {
            if number % 100 == 0 {
                try context.edit(Post.self, RecordName("theirs\(number / 100)")) { $0.text = "mine" }
            } else {
                try context.insert(Post(id: RecordName("own\(number)"), text: "\(number)"))
            }
        }
        try context.save()
        bob.device.network.forgetOperations()
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        let refused = try await bob.container.rejectedWrites(bob.store)
        #expect(Set(refused.map(\.recordName)) == Set((0..<10).map { "theirs\($0)" }))
        // The number of requests is that of a thousand accepted writes.
        #expect(bob.device.network.operations.filter { $0.hasSuffix("records/modify") }.count <= 6)
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice).count == 2 + 10 + 990)
        #expect(try texts(alice).filter { $0.key.hasPrefix("theirs") }.allSatisfy { $0.value == "t" })
    }

    /// Pending changes and deletions can be dropped before they are sent.
    @Test func pendingExportsCanBeDropped() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "n", title: "a"), Note(id: "gone", title: "b"))
        try await phone.sync()
        try phone.delete("gone")
        try phone.save(Note(id: "new", title: "c"))
        #expect(try await phone.container.pendingExports(phone.store).map(\.name) == ["gone", "new"])
        for name in ["gone", "new"] as [RecordName] {
            try await phone.container.dropPendingExport(of: .init(store: phone.store, entity: "Note", name: name))
        }
        #expect(try phone.titles == ["n": "a", "gone": "b"])
        phone.device.network.forgetOperations()
        try await phone.sync()
        #expect(!phone.device.network.operations.contains { $0.hasSuffix("records/modify") })
    }
}

/// Objects moving to another zone whose copies the relay rejects, or whose changes the user drops: the originals on the
/// relay stay visible to all devices.
@Suite(.timeLimit(.minutes(15))) struct RefusedMoveTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func device(_ name: String, relayMoves: Bool = true) async throws -> Mirrored {
        var conditions = MirrorConditions()
        conditions.relayMoves = relayMoves
        return try await Mirrored(relay.device(of: "alice", named: name), conditions: conditions)
    }

    private func edit(_ mirror: Mirrored, _ title: String) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n") { $0.title = title }
        try context.save()
    }

    private func zone(_ mirror: Mirrored) async throws -> String? {
        let id = ObjectID(store: mirror.store, entity: "Note", name: "n")
        return try await mirror.container.recordID(for: id)?.zoneID.zoneName
    }

    /// Changes besides the move become rejected writes; the move is retried.
    @Test(arguments: [true, false]) func aRejectedMoveLosesNothing(_ isEdited: Bool) async throws {
        let (phone, laptop) = (try await device("phone", relayMoves: false), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        let (_, share, _) = try await phone.container.share([id])
        for mirror in [phone, laptop] { try await mirror.sync() }
        if isEdited { try edit(phone, "b") }
        let answer = #"{"records":[{"recordName":"n","reason":"no","serverErrorCode":"BAD_REQUEST"}]}"#
        phone.device.network.fail(request: 1, of: "records/modify", by: .answered(status: 200, body: answer))
        await #expect(throws: MirrorError.self) {
            try await phone.container.stopSharing(share, in: phone.store)
            try await phone.container.sendChanges()
        }
        #expect(try phone.titles == ["n": "a"])
        let refused = try await phone.container.rejectedWrites(phone.store)
        #expect(refused.map { $0.fields["CD_title"] } == (isEdited ? ["b"] : []))
        for mirror in [laptop, phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": "a"])
        }
        for write in refused { try await phone.container.retry(write) }
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": isEdited ? "b" : "a"])
            #expect(try await zone(mirror) == "com.apple.coredata.cloudkit.zone")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        #expect(try await phone.device.privateDatabase.allRecordZones().count == 2)
    }

    /// Dropping the changes of an object affects neither the object nor its move.
    @Test(arguments: [true, false]) func droppingAChangeDuringAMoveLosesNothing(_ isEdited: Bool) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        phone.device.network.fail(request: 1, of: "records/move", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await phone.container.share([id]) }
        if isEdited { try edit(phone, "b") }
        try await phone.container.dropPendingExport(of: id)
        #expect(try phone.titles == ["n": "a"])
        let (_, share, _) = try await phone.container.share([id])
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": "a"])
            #expect(try await zone(mirror) == share.recordID.zoneID.zoneName)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }
}

/// Many-to-many links of an object whose creation the relay rejects.
///
/// On the relay, links are separate records; in `rejectedWrites` they are part of the object's write. See Sync.md,
/// "Refused writes".
@Suite(.timeLimit(.minutes(15))) struct RefusedPairTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// Returns a phone with a note and two tags.
    ///
    /// The relay rejects the note's stars and, with `refusesTag`, the tags' words.
    private func phone(_ folder: TemporaryFolder, refusesTag: Bool) async throws -> Mirrored {
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        for (type, field) in [("CD_Note", "CD_stars")] + (refusesTag ? [("CD_Tag", "CD_word")] : []) {
            let record = CKRecord(recordType: type, recordID: CKRecord.ID(recordName: type))
            record[field] = field == "CD_word" ? 1 : "three"
            try await raw.save(record)
        }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        let context = phone.context()
        var note = Note(id: "n", title: "a")
        note.stars = 3
        try context.insert(note)
        for name in ["s", "t"] as [RecordName] {
            try context.insert(Tag(id: name))
            try context.link(note, \.tags, Tag(id: name))
        }
        try context.save()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        return phone
    }

    private func mendSchema() async throws {
        try await relay.changeSchema {
            $0["CD_Note"]?.fields["CD_stars"] = RecordType.Field(.scalar(.int64))
            $0["CD_Tag"]?.fields["CD_word"] = RecordType.Field(.scalar(.string))
        }
    }

    private func tags(_ mirror: Mirrored) throws -> [String] {
        try mirror.context().related(to: Note(id: "n", title: ""), \.tags).map(\.id.text).sorted()
    }

    /// This works after a restart, and if a tag is rejected as well.
    @Test(arguments: [false, true]) func linksAreSentWithARetriedObject(_ refusesTag: Bool) async throws {
        let folder = try TemporaryFolder()
        var phone = try await phone(folder, refusesTag: refusesTag)
        #expect(try phone.titles == [:])
        let names = refusesTag ? ["n", "s", "t"] : ["n"]
        #expect(try await phone.container.rejectedWrites(phone.store).map(\.recordName).sorted() == names)
        await phone.container.close()
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        try await mendSchema()
        try await phone.container.fetchChanges()
        try await phone.sync()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await laptop.sync()
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["n": "a"])
            #expect(try tags(mirror) == ["s", "t"])
        }
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
    }

    /// A retry restores no links to deleted tags, and no records are left of them.
    @Test func aRetryRestoresOnlyLinksToExistingObjects() async throws {
        let phone = try await phone(try TemporaryFolder(), refusesTag: false)
        let context = phone.context()
        try context.delete(Tag.self, id: "s")
        try context.save()
        try await phone.sync()
        try await mendSchema()
        let refused = try #require(try await phone.container.rejectedWrites(phone.store).first)
        try await phone.container.retry(refused)
        try await phone.sync()
        #expect(try tags(phone) == ["t"])
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let all = try await raw.recordZoneChanges(inZoneWith: home, since: nil).modificationResultsByID.keys
        #expect(Set(all.map(\.recordName)) == ["n", "t", "Note_tags.n.t"])
    }

    /// Links that were removed meanwhile are not restored.
    @Test func aRetryKeepsTheCurrentLinks() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        let (note, tag) = (Note(id: "n", title: "1"), Tag(id: "t"))
        try context.insert(note)
        try context.insert(tag)
        try context.link(note, \.tags, tag)
        try context.save()
        try await phone.sync()
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "other"))
        record["CD_at"] = "noon"
        try await raw.save(record)
        try context.edit(Note.self, "n") { $0.at = Date(timeIntervalSince1970: 0) }
        try context.save()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        try context.unlink(note, \.tags, tag)
        try context.save()
        try await phone.sync()
        try await relay.changeSchema { $0["CD_Note"]?.fields["CD_at"] = RecordType.Field(.scalar(.timestamp)) }
        try await phone.container.retry(try #require(try await phone.container.rejectedWrites(phone.store).first))
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "n")?.at == Date(timeIntervalSince1970: 0))
        #expect(try tags(phone) == [])
    }
}

/// Failures of different kinds are counted separately for each change.
@Suite(.timeLimit(.minutes(15))) struct RepeatedFailureTests {
    let relay: TestRelay
    let phone: Mirrored
    let laptop: Mirrored

    init() async throws {
        relay = try TestRelay()
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        try await laptop.sync()
        // The phone's next request causes a conflict.
        for (mirror, title) in [(phone, "phone"), (laptop, "laptop")] {
            let context = mirror.context()
            try context.edit(Note.self, "a") { $0.title = title }
            try context.save()
        }
        try await laptop.sync()
    }

    @Test func aConflictDoesNotCountAsAServerError() async throws {
        let body = #"{"records":[{"recordName":"a","serverErrorCode":"INTERNAL_ERROR","reason":"broken"}]}"#
        phone.device.network.fail(request: 2, of: "records/modify", by: .answered(status: 200, body: body))
        try? await phone.container.sendChanges()
        #expect(try phone.titles == ["a": "phone"])
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { #expect(try mirror.titles == ["a": "phone"]) }
    }

    /// Another device shares the object between the conflict and the next attempt.
    @Test func anObjectMovedAfterAConflictIsFound() async throws {
        let laptop = laptop
        let id = ObjectID(store: laptop.store, entity: "Note", name: "a")
        phone.device.network.fail(
            request: 2,
            of: "records/modify",
            by: .meanwhile { _ = try? await laptop.container.share([id], title: "Ours") }
        )
        try await phone.container.sendChanges()
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        let fresh = try await Mirrored(relay.device(of: "alice", named: "fresh"))
        try await fresh.sync()
        for mirror in [phone, laptop, fresh] {
            #expect(try mirror.titles == ["a": "phone"])
            #expect(try await mirror.container.fetchShares(in: mirror.store).count == 1)
        }
        let database = phone.device.privateDatabase
        var places: [String] = []
        for zone in try await database.allRecordZones() where zone.zoneID != CKRecordZone.default().zoneID {
            let page = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
            places += page.modificationResultsByID.keys.map(\.recordName).filter { $0 == "a" }
        }
        #expect(places == ["a"])
    }
}

/// Writes rejected because of the schema are retried automatically after the schema changes.
@Suite(.timeLimit(.minutes(15))) struct SchemaChangeTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    @Test func aWriteRejectedByTheSchemaIsRetriedAfterASchemaChange() async throws {
        // Another program has created the field as a string.
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "other"))
        record["CD_stars"] = "three"
        try await raw.save(record)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        var note = Note(id: "n", title: "a")
        note.stars = 3
        try context.insert(note)
        relay.limits.recordBytes = 2_000
        try context.insert(Note(id: "x", title: String(repeating: "x", count: 3_000)))
        try context.save()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try await phone.container.rejectedWrites(phone.store).count == 2)
        // Without a schema change, the write is not retried.
        phone.device.network.forgetOperations()
        try await phone.sync()
        #expect(!phone.device.network.operations.contains { $0.hasSuffix("records/modify") })
        #expect(try phone.titles == [:])
        try await relay.changeSchema { $0["CD_Note"]?.fields["CD_stars"] = RecordType.Field(.scalar(.int64)) }
        try await phone.container.fetchChanges()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try phone.titles == ["n": "a"])
        // The write with another reason is rejected once more, and not retried again.
        let left = try await phone.container.rejectedWrites(phone.store)
        #expect(left.map(\.object.name.text.first) == ["x"], "\(left.map(\.explanation))")
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "n")?.stars == 3)
        #expect(
            try await phone.container.syncState(of: .init(store: phone.store, entity: "Note", name: "n")) == .synced
        )
    }

    /// An automatic retry does not undo later edits or deletions.
    @Test(arguments: [MergePolicy.mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump, .error])
    func aRetryIsMergedLikeAnyChange(_ policy: MergePolicy) async throws {
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "other"))
        record["CD_at"] = "noon"
        try await raw.save(record)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone")) { $0.cloud?.mergePolicy = policy }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "n", title: "1"), Note(id: "m", title: "1"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let noon = Date(timeIntervalSince1970: 43_200)
        for name in ["n", "m"] as [RecordName] { try edit(phone, name) { ($0.at, $0.title) = (noon, "phone's") } }
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try phone.titles == ["n": "1", "m": "1"])
        // Meanwhile the laptop edits one note and deletes the other, and the phone edits the first again.
        try edit(laptop, "n") { ($0.title, $0.done) = ("laptop's", true) }
        try laptop.delete("m")
        try await laptop.sync()
        try await phone.container.fetchChanges()
        try edit(phone, "n") { $0.stars = 5 }
        try await relay.changeSchema { $0["CD_Note"]?.fields["CD_at"] = RecordType.Field(.scalar(.timestamp)) }
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        let isMerged = policy != .error
        for mirror in [phone, laptop] {
            let note = try #require(try mirror.context().object(Note.self, "n"))
            #expect(note.title == (policy == .mergeByPropertyObjectTrump ? "phone's" : "laptop's"))
            #expect(note.done && note.stars == 5 && note.at == (isMerged ? noon : nil))
            #expect(try mirror.titles.count == 1)
        }
        // Writes that are not retried automatically stay for a decision, with all of their values.
        let left = try await phone.container.rejectedWrites(phone.store)
        #expect(left.map(\.object.name) == (isMerged ? ["m"] : ["n", "m"]))
        for write in left { try await phone.container.retry(write) }
        for mirror in [phone, laptop] { try await mirror.sync() }
        #expect(try laptop.titles["m"] == "phone's")
        let note = try #require(try laptop.context().object(Note.self, "n"))
        #expect(note.at == noon && note.done && note.stars == 5)
    }

    private func edit(_ mirror: Mirrored, _ name: RecordName, _ change: (inout Note) -> Void) throws {
        let context = mirror.context()
        try context.edit(Note.self, name, change)
        try context.save()
    }

    /// Encrypting a property later cannot protect values that were sent as plain text.
    @Test func aPropertySentAsPlainTextCannotBecomeEncrypted() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        let plain = Entity("Diary", attributes: [Attribute("secret", .string), Attribute("title", .string)])
        let before = try await Mirrored(device, model: MirrorModel(entities: [plain]), folder: folder)
        await before.container.close()
        var sealed = plain
        sealed.attribute("secret") { $0.isEncrypted = true }
        let error = await #expect(throws: MirrorError.self) {
            try await Mirrored(device, model: MirrorModel(entities: [sealed]), folder: folder)
        }
        let wanted = Violation.encryptionNotAllowed(entity: "Diary", attribute: "secret", reason: .existsUnencrypted)
        #expect(error?.code == .modelIncompatible([wanted]))
        var added = plain
        added.attributes.append(Attribute("sealed", .string))
        added.attribute("sealed") { $0.isEncrypted = true }
        _ = try await Mirrored(device, model: MirrorModel(entities: [added]), folder: folder)
    }
}

extension TestRelay {
    /// Edits the record types of the development schema, as an administrator would.
    func changeSchema(_ change: @escaping @Sendable (inout [String: RecordType]) -> Void) async throws {
        let container = try #require(ContainerID(TestRelay.containerIdentifier))
        let store = try #require(try relay?.stores.store(of: ContainerEnvironment(container, .development)))
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            var types = try writer.schema.types
            change(&types)
            try writer.define(types)
        }
    }
}
