import Foundation
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// Batches, save policies, conflicts and lost answers, with a real relay in this process.
@Suite struct ModifyTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase
    let zone = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.privateDatabase
        try await database.save(CKRecordZone(zoneID: zone))
    }

    func note(_ name: String, _ title: String = "t") -> CKRecord {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone))
        record["title"] = title
        return record
    }

    /// Changes the record on another device.
    func changedElsewhere(_ record: CKRecord, _ field: String, _ value: String) async throws {
        let laptop = relay.device(of: "alice", named: "laptop").privateDatabase
        let theirs = try await laptop.record(for: record.recordID)
        theirs[field] = value
        try await laptop.save(theirs)
    }

    @Test func aConflictErrorContainsAllThreeVersions() async throws {
        let record = try await database.save(note("n", "base"))
        try await changedElsewhere(record, "title", "theirs")
        record["title"] = "mine"
        do {
            try await database.save(record)
            Issue.record("an outdated version was saved")
        } catch let error as CKError {
            #expect(error.code == .serverRecordChanged)
            #expect(error.clientRecord === record)
            #expect(error.ancestorRecord?["title"] == "base")
            #expect(error.ancestorRecord?.recordChangeTag == record.recordChangeTag)
            let server = try #require(error.serverRecord)
            #expect(server["title"] == "theirs")
            #expect(server.recordID == record.recordID)
            #expect(server.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)
            // As every CloudKit program does: apply the own change to the server's record.
            server["title"] = "merged"
            try await database.save(server)
        }
        #expect(try await database.record(for: record.recordID)["title"] == "merged")
    }

    @Test func creatingAnExistingRecordIsAConflictWithoutAncestor() async throws {
        try await database.save(note("n", "first"))
        do {
            try await database.save(note("n", "second"))
            Issue.record("a record was created twice")
        } catch let error as CKError {
            #expect(error.code == .serverRecordChanged)
            #expect(error.serverRecord?["title"] == "first")
            #expect(error.clientRecord?["title"] == "second")
            #expect(error.ancestorRecord == nil)
        }
    }

    @Test func savePoliciesDecideWhatIsOverwritten() async throws {
        let record = note("n", "base")
        record["body"] = "base"
        try await database.save(record)
        try await changedElsewhere(record, "extra", "theirs")
        record["title"] = "mine"

        let careful = try await database.modifyRecords(saving: [record], deleting: [])
        expect(.serverRecordChanged) { _ = try careful.saveResults[record.recordID]?.get() }
        #expect(record.changedKeys() == ["title"])

        let changed = try await database.modifyRecords(saving: [record], deleting: [], savePolicy: .changedKeys)
        _ = try changed.saveResults[record.recordID]?.get()
        #expect(try await database.record(for: record.recordID).allKeys() == ["body", "extra", "title"])

        // Writes all fields of this copy, including those it cleared. Fields it never had stay.
        let plain = note("n", "whole")
        plain["body"] = nil as String?
        let all = try await database.modifyRecords(saving: [plain], deleting: [], savePolicy: .allKeys)
        _ = try all.saveResults[record.recordID]?.get()
        let stored = try await database.record(for: record.recordID)
        #expect(stored.allKeys() == ["extra", "title"])
        #expect(stored["title"] == "whole")
    }

    /// A program keeps the saved record with its new version, and the feed may not contain that version again.
    @Test func aSavedRecordEqualsTheRelaysVersion() async throws {
        let (one, other) = (note("one"), note("other"))
        let record = note("n", "base")
        record["body"] = "base"
        record["count"] = 1
        record.setParent(one)
        let saved = try await database.modifyRecords(saving: [one, other, record], deleting: [])
        _ = try saved.saveResults[record.recordID]?.get()
        let laptop = relay.device(of: "alice", named: "laptop").privateDatabase
        let elsewhere = try await laptop.record(for: record.recordID)
        elsewhere["body"] = nil
        elsewhere.setParent(other)
        try await laptop.save(elsewhere)

        record["title"] = "mine"
        let changed = try await database.modifyRecords(saving: [record], deleting: [], savePolicy: .changedKeys)
        _ = try changed.saveResults[record.recordID]?.get()
        let stored = try await database.record(for: record.recordID)
        #expect(record.recordChangeTag == stored.recordChangeTag && stored.allKeys() == ["count", "title"])
        #expect(record.allKeys() == stored.allKeys())
        #expect(record.parent == stored.parent && stored.parent?.recordID == other.recordID)
        // With that version the record can be saved again.
        record["body"] = "mine"
        try await database.save(record)
        #expect(try await database.record(for: record.recordID)["body"] == "mine")
    }

    @Test func anAtomicBatchFailsAsAWholeAndNamesTheCause() async throws {
        let conflicting = try await database.save(note("conflicting"))
        let deleted = try await database.save(note("deleted"))
        try await changedElsewhere(conflicting, "title", "theirs")
        conflicting["title"] = "mine"
        let valid = note("valid")
        let results = try await database.modifyRecords(saving: [valid, conflicting], deleting: [deleted.recordID])
        expect(.batchRequestFailed) { _ = try results.saveResults[valid.recordID]?.get() }
        expect(.serverRecordChanged) { _ = try results.saveResults[conflicting.recordID]?.get() }
        expect(.batchRequestFailed) { _ = try results.deleteResults[deleted.recordID]?.get() }
        guard case .failure(let error)? = results.saveResults[conflicting.recordID] else { return }
        #expect((error as? CKError)?.serverRecord?["title"] == "theirs")
        await expect(.unknownItem) { _ = try await database.record(for: valid.recordID) }
        #expect(try await database.record(for: deleted.recordID)["title"] == "t")
        // The failed record still has its unsent changes.
        #expect(valid.changedKeys() == ["title"])
    }

    @Test func aNonAtomicBatchSavesTheValidRecords() async throws {
        let conflicting = try await database.save(note("conflicting"))
        try await changedElsewhere(conflicting, "title", "theirs")
        conflicting["title"] = "mine"
        let valid = note("valid")
        let results = try await database.modifyRecords(saving: [conflicting, valid], deleting: [], atomically: false)
        expect(.serverRecordChanged) { _ = try results.saveResults[conflicting.recordID]?.get() }
        #expect(try results.saveResults[valid.recordID]?.get() === valid)
        #expect(try await database.record(for: valid.recordID).recordChangeTag == valid.recordChangeTag)
    }

    @Test func aLargeBatchSavesParentsBeforeTheirChildren() async throws {
        let (parent, top) = (note("parent"), note("top"))
        parent.setParent(top)
        let children = (0..<250).map { note("child\($0)") }
        for child in children.prefix(125) { child.setParent(parent) }
        for child in children.suffix(125) { child["owner"] = CKRecord.Reference(record: parent, action: .deleteSelf) }
        let results = try await database.modifyRecords(
            saving: children + [parent, top],
            deleting: [],
            atomically: false
        )
        #expect(results.saveResults.count == 252)
        for result in results.saveResults.values { _ = try result.get() }
    }

    @Test func aParentCycleDoesNotBlockALargeBatch() async throws {
        let (one, other) = (note("one"), note("other"))
        one.setParent(other)
        other.setParent(one)
        let notes = (0..<200).map { note("n\($0)") }
        let results = try await database.modifyRecords(saving: notes + [one, other], deleting: [], atomically: false)
        #expect(results.saveResults.count == 202)
        _ = try results.saveResults[note("n0").recordID]?.get()
    }

    @Test func zonesAreSavedIndependently() async throws {
        let other = CKRecordZone.ID(zoneName: "Missing")
        let here = note("here")
        let there = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "there", zoneID: other))
        let results = try await database.modifyRecords(saving: [there, here], deleting: [])
        expect(.zoneNotFound) { _ = try results.saveResults[there.recordID]?.get() }
        #expect(try results.saveResults[here.recordID]?.get() === here)
        await expect(.zoneNotFound) { try await database.save(there) }
    }

    @Test func anUnsupportedValueFailsBeforeAnyRequest() async throws {
        let record = note("n")
        record.setValue(URL(fileURLWithPath: "/"), forKey: "place")
        let valid = note("valid")
        alice.network.forgetOperations()
        let results = try await database.modifyRecords(saving: [record, valid], deleting: [])
        #expect(alice.network.operations.isEmpty)
        expect(.batchRequestFailed) { _ = try results.saveResults[valid.recordID]?.get() }
        do {
            try await database.save(record)
            Issue.record("a URL was saved")
        } catch let error as CKError {
            #expect(error.code == .invalidArguments)
            #expect(error.localizedDescription.contains("'place' holds a URL"))
        }
        record["place"] = "text"
        try await database.save(record)
    }

    @Test func tooLargeRecordsFailWithLimitExceeded() async throws {
        let (one, many, good) = (note("one"), note("many"), note("good"))
        one["data"] = Data(count: 1_100_000)
        for part in 0..<3 { many["part\(part)"] = String(repeating: "x", count: 400_000) }
        let results = try await database.modifyRecords(saving: [one, many, good], deleting: [], atomically: false)
        for large in [one, many] { expect(.limitExceeded) { _ = try results.saveResults[large.recordID]?.get() } }
        _ = try results.saveResults[good.recordID]?.get()
        let names = NSPredicate(format: "title IN %@", (0...250).map { "t\($0)" })
        await expect(.limitExceeded) {
            _ = try await database.records(matching: CKQuery(recordType: "Note", predicate: names), inZoneWith: zone)
        }
    }

    @Test func nonFiniteNumbersAreRefusedAndTheOldValueIsKept() async throws {
        let record = note("n")
        record["best"] = 3.0
        try await database.save(record)
        let numbers: [any CKRecordValueProtocol] = [
            Double.infinity, -Float.infinity, Double.nan, [1.0, .infinity], CLLocation(latitude: .nan, longitude: 0),
        ]
        for number in numbers {
            record["best"] = number
            await expect(.invalidArguments) { try await database.save(record) }
            let archive = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
            #expect(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: archive)?["best"] == 3.0)
        }
        record["best"] = 4.0
        record.encryptedValues["secret"] = Double.infinity
        await expect(.invalidArguments) { try await database.save(record) }
        record.encryptedValues["secret"] = 5.0
        try await database.save(record)
        #expect(try await database.record(for: record.recordID)["best"] == 4.0)
    }

    @Test("an invalid location is refused, encrypted or not, and the limits of the ranges are accepted")
    func invalidLocations() async throws {
        let record = note("n")
        record["spot"] = CLLocation(latitude: 90, longitude: -180)
        record.encryptedValues["secret"] = CLLocation(latitude: -90, longitude: 180)
        try await database.save(record)
        let places = [
            (90.000001, 0), (-91, 0), (0, 180.5), (0, -181), (1000, 1000),
            (kCLLocationCoordinate2DInvalid.latitude, kCLLocationCoordinate2DInvalid.longitude),
        ].map { CLLocation(latitude: $0.0, longitude: $0.1) }
        for place in places {
            for value: any CKRecordValueProtocol in [place, [CLLocation(latitude: 1, longitude: 1), place]] {
                let other = note("other")
                other["place"] = value
                await expect(.invalidArguments) { try await database.save(other) }
                other["place"] = nil
                other.encryptedValues["hidden"] = value
                await expect(.invalidArguments) { try await database.save(other) }
            }
            let predicate = NSPredicate(format: "distanceToLocation:fromLocation:(spot, %@) < 100", place)
            let query = CKQuery(recordType: record.recordType, predicate: predicate)
            await expect(.invalidArguments) {
                _ = try await database.records(matching: query, inZoneWith: record.recordID.zoneID)
            }
        }
        let read = try await database.record(for: record.recordID)
        #expect((read["spot"] as? CLLocation)?.coordinate.longitude == -180)
    }

    @Test("a whole number above Int64.max is refused when the record is saved, never rounded")
    func numbersBeyond64BitsAreRefused() async throws {
        let record = note("n")
        record["count"] = UInt64(Int64.max)
        try await database.save(record)
        #expect(try await database.record(for: record.recordID)["count"] as? UInt64 == UInt64(Int64.max))
        let numbers: [any CKRecordValueProtocol] = [
            UInt64.max, UInt64(Int64.max) + 1, UInt.max, NSNumber(value: UInt64.max), [UInt64.max], [1, UInt64.max],
            [NSNumber(value: 1), NSNumber(value: UInt64.max)], [0.5, NSNumber(value: UInt64.max)] as [NSNumber],
        ]
        for number in numbers {
            record["count"] = number
            if let number = number as? NSNumber { #expect(record["count"] as? UInt64 == number.uint64Value) }
            await expect(.invalidArguments) { try await database.save(record) }
        }
        record["count"] = 4
        record.encryptedValues["secret"] = UInt64.max
        await expect(.invalidArguments) { try await database.save(record) }
        record.encryptedValues["secret"] = 5
        try await database.save(record)
        #expect(try await database.record(for: record.recordID)["count"] == 4)
        let beyond = NSPredicate(format: "count = %@", NSNumber(value: UInt64.max))
        await expect(.invalidArguments) {
            _ = try await database.records(matching: CKQuery(recordType: "Note", predicate: beyond), inZoneWith: zone)
        }
    }

    @Test("a date whose milliseconds are beyond Int64 is refused when the record is saved")
    func datesBeyond64BitsAreRefused() async throws {
        let record = note("d")
        for date in [Date(timeIntervalSince1970: 1e17), Date(timeIntervalSince1970: -1e300)] {
            for value in [date, [Date.distantPast, date]] as [any CKRecordValueProtocol] {
                record["at"] = value
                await expect(.invalidArguments) { try await database.save(record) }
            }
        }
        record["at"] = Date(timeIntervalSince1970: 9e15)
        try await database.save(record)
        #expect(try await database.record(for: record.recordID)["at"] == Date(timeIntervalSince1970: 9e15))
    }

    @Test(arguments: [CKDatabase.Scope.private, .public])
    func anInvalidRecordFailsItsAtomicBatchInTheDefaultZone(scope: CKDatabase.Scope) async throws {
        let database = alice.container.database(with: scope)
        let (odd, valid) = (CKRecord(recordType: "Note"), CKRecord(recordType: "Note"))
        odd.setValue(URL(fileURLWithPath: "/"), forKey: "place")
        let together = try await database.modifyRecords(saving: [odd, valid], deleting: [])
        expect(.invalidArguments) { _ = try together.saveResults[odd.recordID]?.get() }
        expect(.batchRequestFailed) { _ = try together.saveResults[valid.recordID]?.get() }
        let apart = try await database.modifyRecords(saving: [odd, valid], deleting: [], atomically: false)
        _ = try apart.saveResults[valid.recordID]?.get()
    }

    @Test func aLostAnswerLeavesTheOutcomeOpen() async throws {
        let record = note("n")
        alice.network.fail(.losesAnswer)
        await expect(.serverResponseLost) { try await database.save(record) }
        // The relay has stored the write. Sent again, it is recognized as the same write and is no conflict.
        try await database.save(record)
        let tag = record.recordChangeTag
        #expect(
            try await relay.device(of: "alice", named: "laptop").privateDatabase.record(for: record.recordID)
                .recordChangeTag == tag
        )
        record["title"] = "u"
        alice.network.fail(.unreachable)
        await expect(.networkFailure) { try await database.save(record) }
        alice.network.cut()
        await expect(.networkUnavailable) { try await database.save(record) }
        alice.network.heal()
        try await database.save(record)
        #expect(record.recordChangeTag != tag)
    }

    /// A proxy's answer does not tell whether the relay has performed the write.
    @Test(arguments: [502, 503, 504, 524], [true, false]) func aProxyErrorLeavesTheOutcomeOpen(
        _ status: Int,
        _ isCarriedOut: Bool
    ) async throws {
        let record = note("n")
        let page = "<html>"
        alice.network.fail(
            isCarriedOut ? .answeredInstead(status: status, body: page) : .answered(status: status, body: page)
        )
        await expect(.serviceUnavailable) { try await database.save(record) }
        try await database.save(record)
        record["title"] = "u"
        try await database.save(record)
    }

    @Test func aChangeAfterALostAnswerIsANewWrite() async throws {
        let record = try await database.save(note("n", "first"))
        record["title"] = "second"
        alice.network.fail(.losesAnswer)
        await expect(.serverResponseLost) { try await database.save(record) }
        record["title"] = "third"
        // The relay has the second version, under a change tag that this device does not know.
        await expect(.serverRecordChanged) { try await database.save(record) }
    }

    @Test func aRepeatedWriteReturnsLaterChangesOfOthers() async throws {
        let record = note("n", "mine")
        alice.network.fail(.losesAnswer)
        await expect(.serverResponseLost) { try await database.save(record) }
        try await changedElsewhere(record, "title", "theirs")
        try await database.save(record)
        #expect(record["title"] == "theirs", "the repeat did not take effect a second time")
    }

    @Test func editsDuringASaveAreKept() async throws {
        let record = note("n", "sent")
        record["other"] = "sent"
        var write: Task<Void, any Error>?
        write = Task { try await database.save(record) }
        try await write?.value
        #expect(record.changedKeys().isEmpty)

        // The same with an edit between request and answer.
        let scripted = ScriptedRelay(
            .answer(
                200,
                """
                {"records":[{"recordName":"n","recordType":"Note","recordChangeTag":"t2","fields":
                {"title":{"value":"sent","type":"STRING"}},"pluginFields":{},"deleted":false,
                "created":{"timestamp":1,"userRecordName":"_alice","deviceID":"1"},
                "modified":{"timestamp":1,"userRecordName":"_alice","deviceID":"1"},
                "zoneID":{"zoneName":"Notes","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"}}]}
                """
            )
        )
        let slow = note("n", "sent")
        scripted.beforeAnswer { slow["title"] = "typed meanwhile" }
        try await scripted.container().privateCloudDatabase.save(slow)
        #expect(slow["title"] == "typed meanwhile")
        #expect(slow.changedKeys() == ["title"])
        #expect(slow.recordChangeTag == "t2")
    }

    @Test func publicRecordsOfOthersCannotBeChanged() async throws {
        let mine = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "p"))
        mine["text"] = "hello"
        try await alice.publicDatabase.save(mine)
        #expect(mine.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)

        let bob = relay.device(of: "bob")
        let seen = try await bob.publicDatabase.record(for: mine.recordID)
        #expect(seen["text"] == "hello")
        #expect(seen.creatorUserRecordID?.recordName.hasPrefix("_") == true)
        #expect(seen.creatorUserRecordID?.recordName != CKCurrentUserDefaultName)
        seen["text"] = "spoilt"
        await expect(.permissionFailure) { try await bob.publicDatabase.save(seen) }

        let visitor = relay.visitor()
        #expect(try await visitor.publicDatabase.record(for: mine.recordID)["text"] == "hello")
        await expect(.notAuthenticated) { try await visitor.publicDatabase.save(CKRecord(recordType: "Post")) }
        await expect(.notAuthenticated) { _ = try await visitor.privateDatabase.allRecordZones() }
    }
}

/// Edits of a record during its save are not part of that save and stay marked as changed.
@Suite(.timeLimit(.minutes(15))) struct EditsDuringSaveTests {
    let relay: TestRelay
    let phone: TestDevice
    let laptop: TestDevice
    let zone = CKRecordZone(zoneName: "Notes")
    let folder = TestFolder()

    init() async throws {
        relay = try TestRelay()
        let key = PassphraseEncryptionKey("alice's own", cost: .light)
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        try folder.make()
        try await phone.privateDatabase.save(zone)
    }

    private func note() -> CKRecord { CKRecord(recordType: "Note", zoneID: zone.zoneID) }

    private func file(_ text: String) throws -> CKAsset {
        let url = folder.url.appendingPathComponent(text)
        try Data(text.utf8).write(to: url)
        return CKAsset(fileURL: url)
    }

    /// The edit comes between the encryption of the value and the rest of the save: the zone's key is looked up then.
    @Test func anEncryptedValueEditedDuringASaveStaysChanged() async throws {
        let record = note()
        record.encryptedValues["text"] = "one"
        record["title"] = "one"
        phone.network.fail(
            request: 1,
            of: "records/lookup",
            by: .meanwhile {
                record.encryptedValues["text"] = "two"
                record["title"] = "two"
            }
        )
        try await phone.privateDatabase.save(record)
        let first = try await laptop.privateDatabase.record(for: record.recordID)
        #expect(first.encryptedValues["text"] == "one" && first["title"] == "one")
        #expect(record.encryptedValues["text"] == "two" && record.encryptedValues.changedKeys() == ["text"])
        #expect(record.changedKeys() == ["title"])
        try await phone.privateDatabase.save(record)
        let second = try await laptop.privateDatabase.record(for: record.recordID)
        #expect(second.encryptedValues["text"] == "two" && second["title"] == "two")
    }

    /// The batch is saved atomically nevertheless.
    @Test func anAssetReplacedDuringASaveStaysChanged() async throws {
        let (record, other) = (note(), note())
        record["image"] = try file("one")
        let replacement = try file("two")
        phone.network.fail(request: 1, of: "assets/upload", by: .meanwhile { record["image"] = replacement })
        let results = try await phone.privateDatabase.modifyRecords(saving: [record, other], deleting: [])
        for result in results.saveResults.values { _ = try result.get() }
        func text() async throws -> String {
            let asset = try await laptop.privateDatabase.record(for: record.recordID)["image"] as? CKAsset
            return String(decoding: try Data(contentsOf: await #require(asset).download()), as: UTF8.self)
        }
        #expect(try await text() == "one")
        #expect(record.changedKeys() == ["image"])
        try await phone.privateDatabase.save(record)
        #expect(try await text() == "two")
    }

    @Test func participantsAddedDuringASaveStayInTheShare() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        try await phone.privateDatabase.save(share)
        let (carol, dave) = ("carol@example.com", "dave@example.com")
        @Sendable func invite(_ email: String) {
            share.addParticipant(CKShare.participant(inviting: ClientIdentity.Lookup(emailAddress: email), .readOnly))
        }
        invite(carol)
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer {
                share.allowsAccessRequests = true
                invite(dave)
            }
        )
        try await phone.privateDatabase.save(share)
        #expect(share.allowsAccessRequests && share.participants.count == 3)
        try await phone.privateDatabase.save(share)
        #expect(share.allowsAccessRequests && share.participants.count == 3)
        let read = try #require(try await laptop.privateDatabase.record(for: share.recordID) as? CKShare)
        #expect(read.allowsAccessRequests)
        #expect(Set(read.participants.compactMap { $0.userIdentity.lookupInfo?.emailAddress }) == [carol, dave])
    }
}

/// Single items that the relay could not read must not be reported as missing.
@Suite(.timeLimit(.minutes(15))) struct UnreadableItemTests {
    let relay: TestRelay
    let phone: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")
    private let broken = "\"serverErrorCode\":\"INTERNAL_ERROR\",\"reason\":\"broken\""

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        try await phone.privateDatabase.save(zone)
    }

    private func save() async throws -> CKRecord.ID {
        let record = CKRecord(recordType: "Entry", recordID: .init(recordName: "a", zoneID: zone.zoneID))
        return try await phone.privateDatabase.save(record).recordID
    }

    private func fetch() async throws -> CKServerChangeToken {
        try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil).changeToken
    }

    @Test func anErrorWithoutARecordNameFailsTheFetch() async throws {
        _ = try await save()
        let token = try await fetch()
        let body = """
            {"zones":[{"zoneID":{"zoneName":"Diary"},"syncToken":"\(token.encoded)","moreComing":false,\
            "records":[{\(broken)}]}]}
            """
        phone.network.fail(request: 1, of: "changes/zone", by: .answered(status: 200, body: body))
        await #expect(throws: CKError.self) { _ = try await fetch() }
    }

    @Test func aLookupWithoutTheRecordIsNotReportedAsUnknownItem() async throws {
        let id = try await save()
        for body in ["{\"records\":[{\(broken)}]}", "{\"records\":[]}"] {
            phone.network.fail(request: 1, of: "records/lookup", by: .answered(status: 200, body: body))
            let error = await #expect(throws: CKError.self) { _ = try await phone.privateDatabase.record(for: id) }
            #expect(error?.code == .internalError)
        }
    }

    @Test func aQueryReportsUnreadableRecords() async throws {
        let record = CKRecord(recordType: "Post", recordID: .init(recordName: "p"))
        record["n"] = 1
        try await phone.publicDatabase.save(record)
        let body = "{\"records\":[{\"recordName\":\"p\",\(broken)}]}"
        phone.network.fail(request: 1, of: "records/query", by: .answered(status: 200, body: body))
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(value: true))
        let page = try await phone.publicDatabase.records(matching: query)
        #expect(page.matchResults.map(\.0.recordName) == ["p"])
        #expect(throws: CKError.self) { try page.matchResults.first?.1.get() }
    }

    @Test func aListingWithAnErrorFails() async throws {
        let body = "{\"zones\":[{\"zoneID\":{\"zoneName\":\"Diary\"},\(broken)}]}"
        phone.network.fail(request: 1, of: "zones/list", by: .answered(status: 200, body: body))
        await #expect(throws: CKError.self) { try await phone.privateDatabase.allRecordZones() }
    }
}
