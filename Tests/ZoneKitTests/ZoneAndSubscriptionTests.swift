import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Zones, subscriptions and the account.
@Suite struct ZoneAndSubscriptionTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase

    init() throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.privateDatabase
    }

    @Test func zonesReportTheirCapabilities() async throws {
        let zone = CKRecordZone(zoneName: "Notes")
        #expect(zone.capabilities.isEmpty)
        let saved = try await database.save(zone)
        #expect(saved.zoneID == zone.zoneID)
        #expect(saved.capabilities.isSuperset(of: [.fetchChanges, .atomic]))
        #expect(try await database.recordZone(for: zone.zoneID) == saved)
        let again = try await database.save(zone)
        #expect(again == saved)
        let all = try await database.allRecordZones()
        #expect(all.first?.zoneID == .default)
        #expect(all.first?.capabilities.contains(.fetchChanges) == false)
        #expect(all.map(\.zoneID).contains(zone.zoneID))
    }

    @Test func eachZoneOfABatchHasItsOwnResult() async throws {
        try await database.save(CKRecordZone(zoneName: "Old"))
        let results = try await database.modifyRecordZones(
            saving: [CKRecordZone(zoneName: "New"), CKRecordZone(zoneName: "_bad")],
            deleting: [CKRecordZone.ID(zoneName: "Old"), .default]
        )
        _ = try results.saveResults[CKRecordZone.ID(zoneName: "New")]?.get()
        expect(.invalidArguments) { _ = try results.saveResults[CKRecordZone.ID(zoneName: "_bad")]?.get() }
        _ = try results.deleteResults[CKRecordZone.ID(zoneName: "Old")]?.get()
        expect(.invalidArguments) { _ = try results.deleteResults[.default]?.get() }
        let found = try await database.recordZones(for: [
            CKRecordZone.ID(zoneName: "New"), CKRecordZone.ID(zoneName: "Old"),
        ])
        _ = try found[CKRecordZone.ID(zoneName: "New")]?.get()
        expect(.zoneNotFound) { _ = try found[CKRecordZone.ID(zoneName: "Old")]?.get() }
        await expect(.zoneNotFound) { _ = try await database.recordZone(for: CKRecordZone.ID(zoneName: "Old")) }
    }

    /// More items than one request takes.
    @Test func manyZonesAndSubscriptionsAreSplitIntoSeveralRequests() async throws {
        let zones = (0..<250).map { CKRecordZone(zoneName: "Z\($0)") }
        let made = try await database.modifyRecordZones(saving: zones, deleting: [])
        #expect(made.saveResults.count == 250)
        for result in made.saveResults.values { _ = try result.get() }
        let watches = zones.map { CKRecordZoneSubscription(zoneID: $0.zoneID, subscriptionID: $0.zoneID.zoneName) }
        let watched = try await database.modifySubscriptions(saving: watches, deleting: [])
        #expect(watched.saveResults.count == 250)
        for result in watched.saveResults.values { _ = try result.get() }
        let more = [CKRecordZone(zoneName: "Last")]
        let gone = try await database.modifyRecordZones(saving: more, deleting: zones.map(\.zoneID))
        #expect(gone.saveResults.count == 1 && gone.deleteResults.count == 250)
        for result in gone.deleteResults.values { try result.get() }
        #expect(try await Set(database.allRecordZones().map(\.zoneID)) == [.default, more[0].zoneID])
    }

    @Test func subscriptionsAreKept() async throws {
        let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
        let whole = CKDatabaseSubscription(subscriptionID: "all")
        whole.notificationInfo = CKSubscription.NotificationInfo(shouldSendContentAvailable: true)
        let one = CKRecordZoneSubscription(zoneID: zone, subscriptionID: "notes")
        let results = try await database.modifySubscriptions(saving: [whole, one], deleting: [])
        #expect(results.saveResults.count == 2)
        for result in results.saveResults.values { _ = try result.get() }

        let all = try await database.allSubscriptions()
        #expect(Set(all.map(\.subscriptionID)) == ["all", "notes"])
        #expect(all.first { $0.subscriptionID == "all" }?.subscriptionType == .database)
        #expect(all.first { $0.subscriptionID == "all" }?.notificationInfo?.shouldSendContentAvailable == true)
        let found = try await database.subscription(for: "notes") as? CKRecordZoneSubscription
        #expect(found?.zoneID == zone)
        try await database.deleteSubscription(withID: "notes")
        await expect(.unknownItem) { _ = try await database.subscription(for: "notes") }
    }

    @Test func subscriptionsKeepTheirRecordType() async throws {
        let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
        let whole = CKDatabaseSubscription(subscriptionID: "all")
        let one = CKRecordZoneSubscription(zoneID: zone, subscriptionID: "notes")
        whole.recordType = "Note"
        one.recordType = "Folder"
        _ = try await database.modifySubscriptions(saving: [whole, one], deleting: [])
        let found = try await database.allSubscriptions()
        #expect(Set(found) == [whole, one])
        #expect((found.first { $0.subscriptionID == "notes" } as? CKRecordZoneSubscription)?.recordType == "Folder")
        for subscription in [whole, one] {
            let data = try NSKeyedArchiver.archivedData(withRootObject: subscription, requiringSecureCoding: true)
            let read = try NSKeyedUnarchiver.unarchivedObject(ofClasses: [type(of: subscription)], from: data)
            #expect(read as? CKSubscription == subscription)
        }
        one.recordType = nil
        let saved = try await database.save(one)
        #expect(try await database.subscription(for: "notes") == saved)
    }

    @Test func thePublicDatabaseHasNeitherZonesNorTheirSubscriptions() async throws {
        let publicDatabase = alice.publicDatabase
        let zone = CKRecordZone(zoneName: "New")
        alice.network.forgetOperations()
        await expect(.badDatabase) { try await publicDatabase.save(zone) }
        await expect(.badDatabase) { try await publicDatabase.deleteRecordZone(withID: zone.zoneID) }
        await expect(.badDatabase) { try await publicDatabase.save(CKDatabaseSubscription(subscriptionID: "all")) }
        await expect(.badDatabase) {
            try await publicDatabase.save(CKRecordZoneSubscription(zoneID: .default, subscriptionID: "one"))
        }
        #expect(alice.network.operations.isEmpty)
    }

    @Test func querySubscriptionsAreKept() async throws {
        let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
        let query = CKQuerySubscription(
            recordType: "Note",
            predicate: NSPredicate(format: "modificationDate > %@", Date(timeIntervalSince1970: 1)),
            subscriptionID: "recent",
            options: [.firesOnRecordCreation, .firesOnRecordDeletion, .firesOnce]
        )
        query.zoneID = zone
        query.notificationInfo = CKSubscription.NotificationInfo(alertBody: "new")
        try await database.save(query)
        let found = try #require(try await database.subscription(for: "recent") as? CKQuerySubscription)
        #expect(found.recordType == "Note" && found.zoneID == zone && found.subscriptionType == .query)
        #expect(found.querySubscriptionOptions == query.querySubscriptionOptions)
        #expect(found.notificationInfo?.alertBody == "new")
        // The fetched and the archived subscription have the original query.
        #expect(found.kind == (found.copy() as? CKQuerySubscription)?.kind)
        let data = try NSKeyedArchiver.archivedData(withRootObject: query, requiringSecureCoding: true)
        let unarchived = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQuerySubscription.self, from: data)
        #expect(unarchived?.kind == query.kind)
        // Their predicates are usable too.
        let note = CKRecord(recordType: "Note")
        for subscription in [found, try #require(unarchived)] {
            #expect(!subscription.predicate.evaluate(with: note))
            let anew = CKQuerySubscription(
                recordType: "Note",
                predicate: subscription.predicate,
                subscriptionID: "recent",
                options: query.querySubscriptionOptions
            )
            anew.zoneID = zone
            #expect(anew.kind == query.kind)
        }
        let everywhere = CKQuerySubscription(
            recordType: "Note",
            predicate: NSPredicate(value: true),
            options: .firesOnRecordUpdate
        )
        try await alice.publicDatabase.save(everywhere)
        let nothing = CKQuerySubscription(recordType: "Note", predicate: NSPredicate(value: true), options: [])
        await expect(.invalidArguments) { try await database.save(nothing) }
    }

    /// The reason is the same as for a query with that predicate, and other subscriptions of the batch are saved.
    @Test func aSubscriptionWithAnUnsupportedPredicateReportsWhy() async throws {
        func watch(_ predicate: NSPredicate, _ name: String) -> CKQuerySubscription {
            CKQuerySubscription(recordType: "Note", predicate: predicate, subscriptionID: name)
        }
        let odd = watch(NSPredicate(format: "title LIKE 'x*'"), "odd")
        let never = watch(NSPredicate(value: false), "never")
        let good = CKDatabaseSubscription(subscriptionID: "good")
        let results = try await database.modifySubscriptions(saving: [odd, good, never], deleting: []).saveResults
        expect(.invalidArguments) { _ = try results["odd"]?.get() }
        expect(.invalidArguments) { _ = try results["never"]?.get() }
        _ = try results["good"]?.get()
        let kept = try NSKeyedArchiver.archivedData(withRootObject: odd, requiringSecureCoding: true)
        let archived = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQuerySubscription.self, from: kept)
        alice.network.cut()
        for subscription in [odd, try #require(archived)] {
            let error = await #expect(throws: CKError.self) { try await database.save(subscription) }
            #expect(error?.localizedDescription.contains("'LIKE' is not a comparison") == true)
        }
    }

    @Test func aSubscriptionsPredicateNamesTheUserAsRecordsDo() async throws {
        let me = try await alice.container.userRecordID()
        let mine = CKQuerySubscription(
            recordType: "Note",
            predicate: NSPredicate(format: "creatorUserRecordID == %@ AND done == NO", me),
            subscriptionID: "mine"
        )
        try await database.save(mine)
        let done = CKRecord(recordType: "Note")
        done["done"] = true
        let open = CKRecord(recordType: "Note")
        open["done"] = false
        _ = try await database.modifyRecords(saving: [done, open], deleting: [])
        let found = try #require(try await database.subscription(for: "mine") as? CKQuerySubscription)
        let read = [try await database.record(for: done.recordID), try await database.record(for: open.recordID)]
        #expect(read.filter { found.predicate.evaluate(with: $0) }.map(\.recordID) == [open.recordID])
    }

    @Test func theAccountStatusAndUserIDAreAvailable() async throws {
        #expect(try await alice.container.accountStatus() == .available)
        let id = try await alice.container.userRecordID()
        #expect(id.recordName.hasPrefix("_"))
        #expect(id.recordName.count == 33)
        #expect(try await relay.device(of: "alice", named: "laptop").container.userRecordID() == id)
        #expect(try await relay.device(of: "bob").container.userRecordID() != id)
        #expect(try await relay.visitor().container.accountStatus() == .noAccount)
        alice.network.cut()
        #expect(try await alice.container.accountStatus() == .temporarilyUnavailable)
        let stranger = relay.device(of: "eve")
        stranger.network.cut()
        #expect(try await stranger.container.accountStatus() == .couldNotDetermine)
    }

    @Test func aContainerReturnsTheSameDatabaseObjects() {
        let container = CKContainer(identifier: "iCloud.same")
        #expect(container.containerIdentifier == "iCloud.same")
        #expect(container.database(with: .public) === container.publicCloudDatabase)
        #expect(container.database(with: .private) === container.privateCloudDatabase)
        #expect(container.database(with: .shared) === container.sharedCloudDatabase)
        #expect(container.sharedCloudDatabase.databaseScope == .shared)
    }
}

/// Push payloads as CloudKit notifications.
@Suite struct NotificationTests {
    func payload(_ kind: String, _ detail: [AnyHashable: Any]) -> [AnyHashable: Any] {
        [
            "aps": ["content-available": 1] as [AnyHashable: Any],
            "ck": ["ce": 2, "cid": "iCloud.test", "nid": "n-1", "ckuserid": "_alice", kind: detail]
                as [AnyHashable: Any],
        ]
    }

    @Test func eachNotificationKindHasItsClass() throws {
        let database = try #require(
            CKNotification.notification(fromRemoteNotificationDictionary: payload("met", ["dbs": 2, "sid": "all"]))
                as? CKDatabaseNotification
        )
        #expect(database.databaseScope == .private)
        #expect(database.subscriptionID == "all")
        #expect(database.containerIdentifier == "iCloud.test")
        #expect(database.notificationType == .database)

        let zone = try #require(
            CKRecordZoneNotification(
                fromRemoteNotificationDictionary: payload("fet", ["dbs": 2, "zid": "Notes", "zoid": "_alice"])
            )
        )
        #expect(zone.recordZoneID == CKRecordZone.ID(zoneName: "Notes"))
        let shared = CKRecordZoneNotification(
            fromRemoteNotificationDictionary: payload("fet", ["dbs": 3, "zid": "Notes", "zoid": "_bob"])
        )
        #expect(shared?.recordZoneID == CKRecordZone.ID(zoneName: "Notes", ownerName: "_bob"))

        let query = CKQueryNotification(
            fromRemoteNotificationDictionary: payload("qry", ["dbs": 1, "sid": "q", "rid": "r", "fo": 3])
        )
        #expect(query?.recordID == CKRecord.ID(recordName: "r"))
        #expect(query?.queryNotificationReason == .recordDeleted)
        let met = CKNotification(fromRemoteNotificationDictionary: payload("met", [:]))
        #expect(met?.notificationID?.description == "n-1")
    }

    @Test func otherPushesAreNotCloudKitNotifications() {
        #expect(CKNotification(fromRemoteNotificationDictionary: [:]) == nil)
        #expect(CKNotification(fromRemoteNotificationDictionary: ["aps": ["alert": "hi"]]) == nil)
        #expect(CKDatabaseNotification(fromRemoteNotificationDictionary: payload("fet", [:])) == nil)
    }
}

@Suite struct PushTargetTests {
    @Test func targetsAreEncodedAsTheRelayExpects() throws {
        let apns = RelayPushTarget.apns(deviceToken: Data([1, 0xAB]), bundleIdentifier: "a.b", isDevelopment: true)
        let apnsText = #"{"apns":{"token":"01ab","topic":"a.b","environment":"development"}}"#
        #expect(String(decoding: apns.body, as: UTF8.self) == apnsText)
        let address = try #require(URL(string: "https://push.example/1"))
        let web = RelayPushTarget.webPush(endpoint: address, publicKey: Data([255]), secret: Data([254]))
        #expect(
            String(decoding: web.body, as: UTF8.self)
                == #"{"webPush":{"endpoint":"https://push.example/1","keys":{"p256dh":"_w","auth":"_g"}}}"#
        )
    }

    @Test func aRelayWithoutPushesReportsIt() async throws {
        let phone = try TestRelay().device(of: "alice")
        let topic = try #require(URL(string: "https://ntfy.sh/alice"))
        let error = await #expect(throws: CKError.self) {
            try await phone.container.registerForPushes(.ntfy(topic: topic))
        }
        #expect(error?.localizedDescription.contains("sends no pushes") == true)
    }
}
