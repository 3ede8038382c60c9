import Foundation
import Records
import RelayAPI
import RelayCore
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
        try await store.write { writer throws(RelayError) in
            var types = try writer.schema.types
            change(&types)
            try writer.define(types)
        }
    }
}
