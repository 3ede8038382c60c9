import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Faults of the network and the relay from which mirrors recover automatically.
@Suite(.timeLimit(.minutes(15))) struct FaultTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func device(_ name: String) async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: name)) }

    private func twoWithThreeNotes() async throws -> (phone: Mirrored, laptop: Mirrored) {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"), Note(id: "gone", title: "3"))
        try await phone.sync()
        try await laptop.sync()
        return (phone, laptop)
    }

    @Test func expiredTokensKeepUnsentChanges() async throws {
        let (phone, laptop) = try await twoWithThreeNotes()
        let there = phone.context()
        try there.delete(Note.self, id: "gone")
        try there.edit(Note.self, "a") { $0.title = "theirs" }
        try there.save()
        try await phone.sync()
        let here = laptop.context()
        try here.edit(Note.self, "b") { $0.title = "mine, not sent" }
        try here.insert(Note(id: "new", title: "new, not sent"))
        try here.save()
        let zone = #"{"zoneName":"com.apple.coredata.cloudkit.zone"}"#
        let expired = #""serverErrorCode":"BAD_REQUEST","ckErrorCode":"CHANGE_TOKEN_EXPIRED","reason":"old""#
        laptop.device.network.forgetOperations()
        laptop.device.network.fail(.answered(status: 400, body: "{\(expired),\"uuid\":\"u\"}"))
        // The mirror then fetches the database from the beginning; the zone's token is rejected as well.
        try await expireZoneToken(of: laptop, zone: zone, expired: expired)
        #expect(try laptop.titles == ["a": "theirs", "b": "mine, not sent", "new": "new, not sent"])
        #expect(laptop.device.network.operations.count < 10)
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.titles == ["a": "theirs", "b": "mine, not sent", "new": "new, not sent"])
    }

    /// The relay has purged older deletions; unsent local changes must survive the new listing.
    @Test func aDeviceOlderThanTheTombstoneHorizonConverges() async throws {
        let (phone, laptop) = try await twoWithThreeNotes()
        let there = phone.context()
        try there.delete(Note.self, id: "gone")
        try there.save()
        try await phone.sync()
        #expect(try await relay.forgetTombstones() > 0)
        let here = laptop.context()
        try here.edit(Note.self, "b") { $0.title = "mine, not sent" }
        try here.insert(Note(id: "new", title: "new, not sent"))
        try here.save()
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["a": "1", "b": "mine, not sent", "new": "new, not sent"])
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try phone.titles == laptop.titles && phone.titles.count == 3)
    }

    /// The mirror neither stores the page's token nor completes the listing without the record.
    @Test(arguments: [false, true]) func aRecordThatTheRelayFailsToReadIsFetchedAgain(_ isFirst: Bool) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        if !isFirst { try await laptop.sync() }
        let context = phone.context()
        try context.edit(Note.self, "a") { $0.title = "2" }
        try context.save()
        try await phone.sync()
        let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let feed = try await phone.device.privateDatabase.recordZoneChanges(inZoneWith: home, since: nil)
        let token = feed.changeToken.encoded
        let record = #"{"recordName":"a","serverErrorCode":"INTERNAL_ERROR","reason":"broken"}"#
        let page = "\"moreComing\":false,\"syncToken\":\"\(token)\",\"records\":[\(record)]"
        let body = "{\"zones\":[{\"zoneID\":{\"zoneName\":\"\(home.zoneName)\"},\(page)}]}"
        laptop.device.network.fail(request: 1, of: "changes/zone", by: .answered(status: 200, body: body))
        let error = await #expect(throws: MirrorError.self) { try await laptop.container.fetchChanges() }
        #expect(error?.code == .relay)
        #expect(try laptop.titles == (isFirst ? [:] : ["a": "1"]))
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["a": "2"])
    }

    /// The retry delay of ten minutes is longer than any wait of this test.
    @Test(arguments: [false, true]) func aBusyZoneDoesNotDelayOthers(_ isAutomatic: Bool) async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), isAutomatic: isAutomatic)
        let context = phone.context()
        try context.insert(Note(id: "shared", title: "1"))
        try context.save()
        _ = try await phone.container.share([ObjectID(store: phone.store, entity: "Note", name: "shared")])
        try await phone.sync()
        let busy =
            #"{"serverErrorCode":"TRY_AGAIN_LATER","ckErrorCode":"ZONE_BUSY","reason":"busy","retryAfter":600}"#
        phone.device.network.fail(request: 1, of: "records/modify", by: .answered(status: 503, body: busy))
        try context.edit(Note.self, "shared") { $0.title = "2" }
        try context.insert(Note(id: "home", title: "1"))
        try context.save()
        if isAutomatic {
            let end = ContinuousClock.now + .seconds(120)
            while try await phone.container.pendingExportCount(phone.store) > 1, ContinuousClock.now < end {
                await Task.yield()
            }
        } else {
            let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
            #expect(error?.code == .relay)
        }
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let page = try await phone.device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
        #expect(page.modificationResultsByID.count == 1)
        await phone.container.close()
    }

    /// Responses of a busy relay do not count toward the limit of conflicts.
    @Test func busyResponsesDoNotCountAsConflicts() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "n", title: "1"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        for (mirror, stars) in [(laptop, 2), (phone, 3)] {
            let context = mirror.context()
            try context.edit(Note.self, "n") { $0.stars = stars }
            try context.save()
        }
        let busy = #"{"records":[{"recordName":"n","serverErrorCode":"TRY_AGAIN_LATER","reason":"busy"}]}"#
        for _ in 0..<8 {
            phone.device.network.fail(request: 1, of: "records/modify", by: .answered(status: 200, body: busy))
            await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        }
        try await laptop.sync()
        for _ in 0..<2 { try await phone.sync() }
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        try await laptop.sync()
        #expect(try laptop.context().object(Note.self, "n")?.stars == 3)
    }

    /// The fault set before rejects the first request; the second request, for the database, succeeds, and the third is
    /// rejected.
    private func expireZoneToken(of laptop: Mirrored, zone: String, expired: String) async throws {
        let body = "{\"zones\":[{\"zoneID\":\(zone),\(expired)}]}"
        laptop.device.network.fail(.passes, .answered(status: 200, body: body))
        try await laptop.container.fetchChanges()
    }

    /// The relay invalidates all tokens while a device fetches page by page: unsent changes are sent, and the listing
    /// ends.
    @Test(arguments: 1...4) func invalidatingAllTokensDuringAFetchLosesNothing(_ page: Int) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        for number in 0..<6 { try phone.save(Note(id: RecordName("n\(number)"), title: "\(number)")) }
        try await phone.sync()
        try await laptop.sync()
        for number in 0..<6 {
            let context = phone.context()
            try context.edit(Note.self, RecordName("n\(number)")) { $0.stars = 1 }
            try context.save()
        }
        try phone.delete("n5")
        try await phone.sync()
        let here = laptop.context()
        try here.edit(Note.self, "n0") { $0.title = "mine" }
        try here.insert(Note(id: "new", title: "new"))
        try here.save()
        relay.limits.itemsPerRequest = 2
        laptop.device.network.forgetOperations()
        let relay = relay
        laptop.device.network.fail(
            request: page,
            of: page == 1 ? "changes/database" : "changes/zone",
            by: .meanwhile { try? relay.expireChangeTokens() }
        )
        try await laptop.container.fetchChanges()
        #expect(laptop.device.network.operations.count < 20, "\(laptop.device.network.operations)")
        relay.limits.itemsPerRequest = 200
        for mirror in [laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["n0": "mine", "n1": "1", "n2": "2", "n3": "3", "n4": "4", "new": "new"])
            let stars = try mirror.context().fetch(Note.self, \.stars == 1).count
            #expect(stars == 5)
        }
    }

    @Test func aLostResponseDuplicatesNothing() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try await phone.sync()
        try phone.save(Note(id: "a", title: "1"))
        // The zone is created, then the response to the records is lost.
        phone.device.network.fail(.passes, .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        // The same with an object that is deleted before the next attempt.
        try phone.save(Note(id: "b", title: "2"))
        phone.device.network.fail(.losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        let context = phone.context()
        try context.delete(Note.self, id: "b")
        try context.save()
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.titles == ["a": "1"])
        #expect(try phone.titles == ["a": "1"])
    }

    /// Responses of a proxy, of a captive portal or of a damaged store say nothing about the changes, which stay
    /// pending.
    @Test(arguments: [
        (404, "<html>No backend</html>"), (200, "<html>Welcome to the hotel</html>"),
        (500, #"{"serverErrorCode":"INTERNAL_ERROR","reason":"The store is damaged.","uuid":"u"}"#),
    ])
    func aResponseWithoutResultsKeepsAllChanges(_ answer: (status: Int, body: String)) async throws {
        let phone = try await device("phone")
        try phone.save(Note(id: "old", title: "1"))
        try await phone.sync()
        let context = phone.context()
        try context.edit(Note.self, "old") { $0.title = "edited" }
        try context.insert(Note(id: "new", title: "new"))
        try context.save()
        for _ in 0..<6 {
            for _ in 0..<9 { phone.device.network.fail(.answered(status: answer.status, body: answer.body)) }
            await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
            phone.device.network.failNothing()
        }
        #expect(try phone.titles == ["old": "edited", "new": "new"])
        #expect(try await phone.container.pendingExportCount(phone.store) == 2)
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// A change that always fails with a server error, while others succeed, does not block the others.
    @Test func aChangeThatAlwaysFailsDoesNotBlockOthers() async throws {
        let phone = try await device("phone")
        try await phone.sync()
        let broken = TestNetwork.Fault.answered(status: 500, body: "")
        try phone.save(Note(id: "odd", title: "odd"))
        for other in ["b", "c"] {
            try phone.save(Note(id: RecordName(other), title: other))
            phone.device.network.fail(request: 1, of: "records/modify", by: broken)
            _ = try? await phone.container.sendChanges()
            phone.device.network.fail(request: 1, of: "records/modify", by: broken)
            _ = try? await phone.container.sendChanges()
        }
        #expect(try await phone.container.rejectedWrites(phone.store).map(\.recordName) == ["odd"])
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try phone.titles == ["b": "b", "c": "c"])
    }

    /// A response in which every change fails because of another one is not retried at once.
    @Test func aBatchFailureWithoutACauseIsNotRetriedAtOnce() async throws {
        let phone = try await device("phone")
        try phone.save(Note(id: "first", title: "creates the zone"))
        try await phone.sync()
        try phone.save(Note(id: "a", title: "1"))
        let atomic = #""serverErrorCode":"ATOMIC_ERROR","reason":"another's""#
        let body = "{\(atomic),\"uuid\":\"u\",\"records\":[{\"recordName\":\"a\",\(atomic)}]}"
        for _ in 0..<5 { phone.device.network.fail(.answered(status: 400, body: body)) }
        phone.device.network.forgetOperations()
        let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect((error?.underlying as? CKError)?.code == .batchRequestFailed)
        #expect(phone.device.network.operations.count == 1)
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        phone.device.network.failNothing()
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func twoDevicesCanSeedTheSameObjectsOffline() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        for mirror in [phone, laptop] {
            try mirror.save(Note(id: "seed-1", title: "Welcome"), Note(id: "seed-2", title: "Tips"))
        }
        try await phone.sync()
        try await laptop.sync()
        try await phone.sync()
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["seed-1": "Welcome", "seed-2": "Tips"])
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
            #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        }
    }

    @Test func deduplicationMergesDuplicates() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        for (mirror, name) in [(phone, "B"), (laptop, "A")] {
            let context = mirror.context()
            let folder = Folder(id: RecordName(name), name: "Inbox")
            var note = Note(id: RecordName("in-" + name), title: name)
            note.folder = ToOne(folder)
            try context.insert(folder)
            try context.insert(note)
            try context.save()
            try await mirror.sync()
        }
        try await phone.sync()
        for mirror in [phone, laptop] {
            #expect(try await mirror.container.deduplicate(Folder.self, by: "name") == 1)
            #expect(try mirror.context().fetch(Folder.self).count == 2)
            try await mirror.sync()
            try await mirror.sync()
        }
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let folders = try mirror.context().fetch(Folder.self)
            #expect(folders.map(\.id) == ["A"])
            #expect(try mirror.context().related(to: folders[0], \.notes).map(\.title) == ["A", "B"])
        }
    }

    /// Objects whose key property is nil do not count as equal.
    @Test func objectsWithoutAKeyAreNotDuplicates() async throws {
        let phone = try await device("phone")
        var (third, fourth) = (Note(id: "c", title: "same"), Note(id: "d", title: "same"))
        (third.body, fourth.body) = ("text", "text")
        try phone.save(Note(id: "a", title: "same"), Note(id: "b", title: "same"), third, fourth)
        try await phone.sync()
        #expect(try await phone.container.deduplicate(Note.self, by: "title", "body") == 1)
        #expect(try await phone.container.deduplicate(Note.self, by: "body") == 0)
        let error = await #expect(throws: MirrorError.self) { try await phone.container.deduplicate(Note.self) }
        #expect(error?.code == .unknownProperty)
        try await phone.sync()
        try await phone.sync()
        #expect(try phone.context().fetch(Note.self).map(\.id) == ["a", "b", "c"])
    }

    /// A marked duplicate is checked again before its removal: it may differ by then, or be the only one left.
    @Test func anObjectThatIsNoLongerADuplicateIsKept() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        for (id, name) in [("a", "Inbox"), ("b", "Inbox"), ("c", "Home"), ("d", "Home"), ("e", "Old"), ("f", "Old")] {
            try context.insert(Folder(id: RecordName(id), name: name))
        }
        try context.save()
        try await phone.sync()
        #expect(try await phone.container.deduplicate(Folder.self, by: "name") == 3)
        try context.edit(Folder.self, "b") { $0.name = "Outbox" }
        try context.delete(Folder.self, id: "c")
        try context.save()
        try await phone.sync()
        try await phone.sync()
        #expect(try phone.context().fetch(Folder.self).map(\.id) == ["a", "b", "d", "e"])
        // It is marked again if it becomes equal again.
        try context.edit(Folder.self, "b") { $0.name = "Inbox" }
        try context.save()
        #expect(try await phone.container.deduplicate(Folder.self, by: "name") == 1)
    }

    /// Links to a marked duplicate, and its tags, move to the remaining object.
    @Test func linksOfADuplicateMoveToTheRemainingObject() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        let context = phone.context()
        for id in ["a", "b"] as [RecordName] { try context.insert(Folder(id: id, name: "Inbox")) }
        for id in ["m", "n"] as [RecordName] { try context.insert(Note(id: id, title: "same")) }
        let tag = Tag(word: "red")
        try context.insert(tag)
        for id in ["m", "n"] as [RecordName] {
            try context.link(try #require(try context.object(Note.self, id)), \.tags, tag)
        }
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        #expect(try await phone.container.deduplicate(Folder.self, by: "name") == 1)
        #expect(try await phone.container.deduplicate(Note.self, by: "title") == 1)
        let there = laptop.context()
        var note = Note(id: "new", title: "new")
        note.folder = ToOne<Folder>("b")
        try there.insert(note)
        let blue = Tag(word: "blue")
        try there.insert(blue)
        try there.link(try #require(try there.object(Note.self, "n")), \.tags, blue)
        try there.save()
        for mirror in [laptop, phone, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let context = mirror.context()
            #expect(try context.fetch(Folder.self).map(\.id) == ["a"])
            #expect(try context.object(Note.self, "new")?.folder.target == "a")
            let note = try #require(try context.fetch(Note.self, \.title == "same").first)
            #expect(note.id == "m")
            #expect(try context.related(to: note, \.tags).map(\.word).sorted() == ["blue", "red"])
        }
    }

    /// Duplicates are also removed in local stores and in public stores, which have no change feed.
    @Test(arguments: [CKDatabase.Scope.public, nil])
    func duplicatesAreRemovedInEveryKindOfStore(_ scope: CKDatabase.Scope?) async throws {
        let device = relay.device(of: "alice", named: "phone")
        let mirror = try await Mirrored(device, model: MirrorModel(Post.self), scope: scope ?? .private) {
            if scope == nil { $0.cloud = nil }
        }
        if scope != nil { _ = try? await mirror.container.fetchChanges() }
        let context = mirror.context()
        for id in ["a", "b"] as [RecordName] { try context.insert(Post(id: id, text: "same")) }
        try context.save()
        if scope != nil { try await mirror.container.sendChanges() }
        #expect(try await mirror.container.deduplicate(Post.self, by: "text") == 1)
        if scope != nil {
            #expect(try context.fetch(Post.self).count == 2)
            try await mirror.container.pollNow()
        }
        #expect(try mirror.context().fetch(Post.self).map(\.id) == ["a"])
        #expect(try await mirror.container.pendingExportCount(mirror.store) == (scope == nil ? 0 : 1))
    }

    @Test func aDeletedZoneRemovesItsObjectsButKeepsUnsentOnes() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        try await laptop.sync()
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        _ = try await phone.device.privateDatabase.deleteRecordZone(withID: zone)
        try laptop.save(Note(id: "new", title: "not sent yet"))
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["new": "not sent yet"])
        try await laptop.container.sendChanges()
        try await phone.container.fetchChanges()
        #expect(try phone.titles == ["new": "not sent yet"])
    }
}
