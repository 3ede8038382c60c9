import Foundation
import Records
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
