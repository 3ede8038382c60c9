import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// In stores with shares, rows written by SQL belong to the same zones as objects saved by contexts.
///
/// See SharingRules.md, "What is shared".
@Suite(.timeLimit(.minutes(15))) struct OutsideSharingTests {
    private let home: Household
    private var phone: NotesApp { home.phone }
    private var laptop: NotesApp { home.laptop }
    private var bob: NotesApp { home.bob }

    init() async throws {
        home = try await Household(memo: "trip's")
        try await home.share()
    }

    private func share(_ name: RecordName) async throws {
        try home.makeNote(name, memo: "\(name)'s")
        try await phone.sync()
        try await home.share(name)
    }

    private func write(_ sql: String, _ app: NotesApp, _ store: StoreID) async throws {
        let database = try #require(app.container.database(of: store))
        try await database.write { try $0.execute(sql: sql) }
    }

    private func texts(_ app: NotesApp) throws -> [String] { try app.context().fetch(Memo.self).map(\.text).sorted() }

    /// A participant's new rows join the share to which they are linked, directly or through another new row.
    @Test func aParticipantsRowsJoinTheShare() async throws {
        try await write(
            """
            INSERT INTO Memo(id, text, note) VALUES ('b', 'chained', 'new');
            INSERT INTO Memo(id, text, note) VALUES ('a', 'by SQL', 'trip');
            INSERT INTO SharedNote(id, title) VALUES ('new', 'with it');
            UPDATE Memo SET note = 'new' WHERE text = 'trip''s';
            """,
            bob,
            bob.others
        )
        try await bob.sync()
        for app in [phone, laptop] {
            try await app.sync()
            #expect(try texts(app) == ["by SQL", "chained", "trip's"])
            #expect(try app.context().fetch(SharedNote.self).map(\.title).sorted() == ["trip", "with it"])
        }
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
    }

    /// A row without a share stays pending, and sending throws the reason.
    @Test func aRowWithoutAShareStaysPendingWithAnError() async throws {
        try await write("INSERT INTO SharedNote(id, title) VALUES ('alone', 'alone')", bob, bob.others)
        for _ in 0..<2 {
            let error = await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
            #expect(error?.explanation.contains("related to a shared object") == true)
            // A round that does not try to send the row.
            try await write("UPDATE Memo SET text = text || '!'", bob, bob.others)
            await bob.container.sync(bob.others)?.sendOnSchedule(backingOff: [])
        }
        let events = try await bob.container.events(of: bob.others)
        #expect(events.count { $0.details.contains(.shareMissing(["alone"])) } == 1)
        try await write("UPDATE Memo SET note = 'alone'", bob, bob.others)
        try await bob.sync()
        try await phone.sync()
        #expect(try phone.context().fetch(SharedNote.self).map(\.title).sorted() == ["alone", "trip"])
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
    }

    @Test func aRowLinkedToTwoSharesIsRejected() async throws {
        try await share("work")
        try await write(
            "INSERT INTO SharedNote(id, title) VALUES ('both', 'both'); UPDATE Memo SET note = 'both'",
            bob,
            bob.others
        )
        let error = await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(error?.explanation.contains("two different shares") == true)
        let refused = try await bob.container.rejectedWrites(bob.others)
        #expect(refused.map(\.object.name) == ["both"] && refused.map(\.code) == [.alreadyShared])
        #expect(try bob.context().fetch(SharedNote.self).map(\.title).sorted() == ["trip", "work"])
    }

    /// An object in one share cannot be linked to another share.
    @Test(arguments: [true, false]) func aLinkBetweenTwoSharesIsRejected(_ isParticipants: Bool) async throws {
        try await share("work")
        let (app, store) = isParticipants ? (bob, bob.others) : (phone, phone.mine)
        let memo = try #require(try app.context().fetch(Memo.self, \.text == "trip's").first)
        try await write("UPDATE Memo SET note = 'work' WHERE text = 'trip''s'", app, store)
        let error = await #expect(throws: MirrorError.self) { try await app.container.sendChanges() }
        #expect(error?.explanation.contains("two different shares") == true)
        let refused = try await app.container.rejectedWrites(store)
        #expect(refused.map(\.object.name) == [memo.id] && refused.map(\.code) == [.alreadyShared])
        for each in [phone, laptop, bob] {
            try await each.sync()
            #expect(try each.context().object(Memo.self, memo.id)?.note.target == "trip")
        }
        // Other changes of the object are sent.
        try await write("UPDATE Memo SET text = 'edited' WHERE text = 'trip''s'", app, store)
        try await app.sync()
        for each in [phone, laptop, bob] {
            try await each.sync()
            #expect(try each.context().object(Memo.self, memo.id)?.text == "edited")
        }
    }

    /// A creation that the relay rejected in a share is retried in the same share.
    @Test(arguments: [true, false]) func aRejectedCreationIsRetriedInItsShare(_ isParticipants: Bool) async throws {
        let (app, store) = isParticipants ? (bob, bob.others) : (phone, phone.mine)
        let context = app.context()
        let note = try #require(try context.object(SharedNote.self, "trip"))
        let memo = Memo(text: "refused", note: note)
        try context.insert(memo)
        try context.save()
        app.device.network.fail(
            request: 1,
            of: "records/modify",
            by: .answered(
                status: 200,
                body: """
                    {"records":[{"recordName":"\(memo.id.text)","reason":"no","serverErrorCode":"BAD_REQUEST"}]}
                    """
            )
        )
        await #expect(throws: MirrorError.self) { try await app.container.sendChanges() }
        #expect(try texts(app) == ["trip's"])
        try await app.container.retry(try #require(try await app.container.rejectedWrites(store).first))
        try await app.sync()
        for each in [phone, laptop, bob] {
            try await each.sync()
            #expect(try texts(each) == ["refused", "trip's"])
        }
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let id = ObjectID(store: phone.mine, entity: "Memo", name: memo.id)
        #expect(try await phone.container.recordID(for: id)?.zoneID == share.recordID.zoneID)
    }

    /// The owner's new rows, and rows that the relay has in the home zone.
    @Test func theOwnersRowsJoinTheShare() async throws {
        let context = phone.context()
        let other = SharedNote(id: "other", title: "other")
        try context.insert(other)
        let memo = Memo(text: "moved", note: other)
        try context.insert(memo)
        try context.save()
        for app in [phone, laptop] { try await app.sync() }
        try await write(
            """
            INSERT INTO Memo(id, text, note) VALUES ('a', 'by SQL', 'trip');
            UPDATE Memo SET note = 'trip' WHERE text = 'moved';
            """,
            phone,
            phone.mine
        )
        try await phone.sync()
        try await bob.sync()
        #expect(try texts(bob) == ["by SQL", "moved", "trip's"])
        try await laptop.sync()
        #expect(try texts(laptop) == ["by SQL", "moved", "trip's"])
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let ids = ["a", memo.id].map { ObjectID(store: phone.mine, entity: "Memo", name: $0) }
        for id in ids {
            #expect(try await phone.container.recordID(for: id)?.zoneID == share.recordID.zoneID)
        }
        let still = ObjectID(store: phone.mine, entity: "SharedNote", name: "other")
        #expect(try await phone.container.recordID(for: still)?.zoneID.zoneName == "com.apple.coredata.cloudkit.zone")
        #expect(try await phone.container.pendingExportCount(phone.mine) == 0)
    }
}

/// An owner with two devices, only one of which knows of a share.
///
/// See SharingRules.md, "What is shared" and "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct UnsharedLinkedObjectTests {
    private let home: Household
    private var phone: NotesApp { home.phone }
    private var laptop: NotesApp { home.laptop }
    private var bob: NotesApp { home.bob }

    init() async throws { home = try await Household(memo: "first") }

    /// An object that the laptop created before it knew of the share, and sends later, joins the share.
    @Test(arguments: [true, false]) func anObjectLinkedToASharedOneJoinsTheShare(_ isSentFirst: Bool) async throws {
        try laptop.addMemo("second")
        if isSentFirst { try await laptop.container.sendChanges() }
        let share = try await home.share()
        for app in [laptop, laptop, phone, bob] { try await app.sync() }
        for app in [phone, laptop, bob] { #expect(try app.memos == ["first", "second"]) }
        let context = laptop.context()
        for memo in try context.fetch(Memo.self) {
            let id = try context.objectID(of: memo)
            #expect(try await laptop.container.recordID(for: id)?.zoneID == share.recordID.zoneID)
        }
        #expect(try await laptop.container.pendingExportCount(laptop.mine) == 0)
    }

    /// The laptop's unsent changes move to the home zone when the share ends, and do not recreate the share's zone.
    @Test(arguments: [true, false], [true, false]) func unsentChangesOfAnEndedShareMoveToTheHomeZone(
        _ isAlsoEdited: Bool,
        _ fetchesFirst: Bool
    ) async throws {
        let share = try await home.share()
        for app in [laptop, phone] { try await app.sync() }
        try laptop.addMemo("second")
        if isAlsoEdited {
            let context = laptop.context()
            try context.edit(SharedNote.self, try #require(try laptop.note).id) { $0.title = "journey" }
            try context.save()
        }
        try await phone.container.stopSharing(share, in: phone.mine)
        if fetchesFirst { try await laptop.container.fetchChanges() }
        for app in [laptop, laptop, phone, bob] { try await app.sync() }
        for app in [phone, laptop] {
            #expect(try app.memos == ["first", "second"])
            #expect(try app.note?.title == (isAlsoEdited ? "journey" : "trip"))
        }
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID)
        #expect(!zones.contains(share.recordID.zoneID), "\(zones)")
        #expect(try await laptop.container.pendingExportCount(laptop.mine) == 0)
        #expect(try bob.note == nil)
    }

    /// A device can end a share whose zone it has not fetched.
    @Test func aDeviceCanEndAShareBeforeFetchingItsZone() async throws {
        let share = try await home.share()
        try bob.addMemo("guest's")
        try await bob.sync()
        try await laptop.container.stopSharing(share, in: laptop.mine)
        for app in [phone, bob] { try await app.sync() }
        for app in [phone, laptop] { #expect(try app.memos == ["first", "guest's"]) }
        #expect(try bob.note == nil)
        #expect(try await phone.container.fetchShares(in: phone.mine).isEmpty)
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID)
        #expect(!zones.contains(share.recordID.zoneID))
    }
}
