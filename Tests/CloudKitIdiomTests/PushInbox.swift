import CloudKit
import Testing
import ZoneTesting

// A program's use of pushes: it subscribes once, distinguishes the kinds of notifications, and fetches what they refer
// to.

private final class PushInbox: @unchecked Sendable {
    enum Work: Equatable {
        case fetchDatabase(CKDatabase.Scope)
        case fetchZone(CKRecordZone.ID)
        case show(String, CKRecord.ID, CKQueryNotification.Reason)
        case ignore
    }

    private let container: CKContainer
    private var hasSubscribed: Set<CKSubscription.ID> = []

    init(_ container: CKContainer) { self.container = container }

    /// Called at each launch.
    ///
    /// Creates only missing subscriptions.
    func subscribe(_ subscription: CKSubscription, to scope: CKDatabase.Scope) async throws {
        guard !hasSubscribed.contains(subscription.subscriptionID) else { return }
        let database = container.database(with: scope)
        do {
            _ = try await database.subscription(for: subscription.subscriptionID)
        } catch let error as CKError where error.code == .unknownItem {
            let info = CKSubscription.NotificationInfo()
            info.shouldSendContentAvailable = true
            if subscription.subscriptionType == .query {
                info.alertLocalizationKey = "%1$@ says %2$@"
                info.alertLocalizationArgs = ["author", "text"]
                info.desiredKeys = ["author", "stars"]
                info.soundName = "default"
                info.shouldBadge = true
                info.category = "REVIEW"
            }
            subscription.notificationInfo = info
            let operation = CKModifySubscriptionsOperation(
                subscriptionsToSave: [subscription],
                subscriptionIDsToDelete: nil
            )
            operation.qualityOfService = .utility
            try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, Error>) in
                operation.modifySubscriptionsResultBlock = { done.resume(with: $0) }
                database.add(operation)
            }
        }
        hasSubscribed.insert(subscription.subscriptionID)
    }

    /// `application(_:didReceiveRemoteNotification:)`.
    func received(_ userInfo: [AnyHashable: Any]) -> Work {
        guard let notification = CKNotification(fromRemoteNotificationDictionary: userInfo),
            notification.containerIdentifier == nil
                || notification.containerIdentifier == container.containerIdentifier
        else { return .ignore }
        switch notification.notificationType {
        case .database:
            guard let notification = notification as? CKDatabaseNotification else { return .ignore }
            return .fetchDatabase(notification.databaseScope)
        case .recordZone:
            guard let zoneID = (notification as? CKRecordZoneNotification)?.recordZoneID else { return .ignore }
            return .fetchZone(zoneID)
        case .query:
            guard let query = notification as? CKQueryNotification, let id = query.recordID else { return .ignore }
            let author = query.recordFields?["author"] as? String ?? "?"
            let stars = query.recordFields?["stars"] as? Int ?? 0
            return .show("\(author) \(stars)", id, query.queryNotificationReason)
        case .readNotification: return .ignore
        @unknown default: return .ignore
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct PushInboxTests {
    private let container: CKContainer
    private let inbox: PushInbox
    private let zoneID = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        container = try TestRelay().device(of: "alice").container
        inbox = PushInbox(container)
        _ = try await container.privateCloudDatabase.save(CKRecordZone(zoneID: zoneID))
    }

    @Test func subscriptionsAreCreatedOnceAndReadBack() async throws {
        let reviews = CKQuerySubscription(
            recordType: "Review",
            predicate: NSPredicate(format: "stars >= %d", 4),
            subscriptionID: "reviews",
            options: [.firesOnRecordCreation, .firesOnRecordUpdate]
        )
        for _ in 0..<2 {
            try await inbox.subscribe(CKDatabaseSubscription(subscriptionID: "all"), to: .private)
            try await inbox.subscribe(CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: "zone"), to: .private)
            try await inbox.subscribe(reviews, to: .public)
        }
        let own = try await container.privateCloudDatabase.allSubscriptions()
        #expect(Set(own.map(\.subscriptionID)) == ["all", "zone"])
        #expect(own.contains { ($0 as? CKRecordZoneSubscription)?.zoneID == zoneID })
        let found = try await container.publicCloudDatabase.subscription(for: "reviews")
        let kept = try #require(found as? CKQuerySubscription)
        #expect(kept.predicate == reviews.predicate && kept.recordType == "Review")
        #expect(kept.querySubscriptionOptions == [.firesOnRecordCreation, .firesOnRecordUpdate] && kept.zoneID == nil)
        let info = try #require(kept.notificationInfo)
        #expect(info.alertLocalizationArgs == ["author", "text"] && info.desiredKeys == ["author", "stars"])
        #expect(info.shouldBadge && info.soundName == "default" && info.category == "REVIEW" && info.alertBody == nil)
        let copy = try #require(kept.copy() as? CKQuerySubscription)
        #expect(copy == kept && copy.notificationInfo?.desiredKeys == info.desiredKeys)
        // The user turns the notifications off.
        let stop = CKModifySubscriptionsOperation(subscriptionsToSave: nil, subscriptionIDsToDelete: ["reviews"])
        await withCheckedContinuation { done in
            stop.completionBlock = { done.resume() }
            container.publicCloudDatabase.add(stop)
        }
        #expect(try await container.publicCloudDatabase.allSubscriptions().isEmpty)
    }

    @Test func pushDictionariesOfTheAppDelegateAreParsed() throws {
        let cid = container.containerIdentifier ?? ""
        let database: [AnyHashable: Any] = [
            "aps": ["content-available": 1],
            "ck": ["ce": 2, "cid": cid, "ckuserid": "_u", "met": ["dbs": 3, "sid": "s"], "nid": "n"] as [String: Any],
        ]
        #expect(inbox.received(database) == .fetchDatabase(.shared))
        let zone: [AnyHashable: Any] = [
            "aps": ["content-available": 1],
            "ck": [
                "cid": cid, "ckuserid": "_u", "nid": "n",
                "fet": ["dbs": 2, "sid": "z", "zid": "Notes", "zoid": "_u"] as [String: Any],
            ] as [String: Any],
        ]
        #expect(inbox.received(zone) == .fetchZone(zoneID))
        let query: [AnyHashable: Any] = [
            "aps": ["alert": ["loc-key": "K", "loc-args": ["a", "b"]], "badge": 3, "sound": "default"] as [String: Any],
            "ck": [
                "cid": cid, "nid": "n",
                "qry": [
                    "dbs": 1, "fo": 2, "rid": "r1", "sid": "reviews", "zid": "_defaultZone", "zoid": "_defaultOwner",
                    "af": ["author": "Ada", "stars": 5] as [String: Any],
                ] as [String: Any],
            ] as [String: Any],
        ]
        #expect(inbox.received(query) == .show("Ada 5", CKRecord.ID(recordName: "r1"), .recordUpdated))
        // The payload as parsed from JSON, and as an older program casts it.
        let data = try JSONSerialization.data(withJSONObject: query)
        let json = try #require(try JSONSerialization.jsonObject(with: data) as? [AnyHashable: Any])
        #expect(inbox.received(json) == inbox.received(query))
        let note = CKNotification(fromRemoteNotificationDictionary: json)
        #expect(note?.alertLocalizationKey == "K" && note?.alertLocalizationArgs == ["a", "b"] && note?.badge == 3)
        #expect(note?.subscriptionID == "reviews" && note?.soundName == "default" && note?.isPruned == false)
        // Pushes of other senders and containers.
        #expect(inbox.received(["aps": ["alert": "Hello"]]) == .ignore)
        #expect(inbox.received([:]) == .ignore)
        #expect(inbox.received(["ck": ["cid": "iCloud.other", "met": ["dbs": 2]] as [String: Any]]) == .ignore)
        #expect(CKNotification(fromRemoteNotificationDictionary: ["ck": "nonsense"]) == nil)
    }

    /// Payloads as the relay writes them, parsed from JSON.
    @Test func referencesAndLocationsInAPushAreParsed() throws {
        let text = #"""
            {"aps":{"content-available":1},"ck":{"cid":"c","nid":"n","ckuserid":"_u","qry":{"dbs":2,"fo":1,"rid":"r",
            "sid":"s","zid":"Notes","zoid":"_u","af":{"session":{"recordName":"one","action":"DELETE_SELF"},
            "about":{"recordName":"two","action":"NONE"},"place":{"latitude":50.5,"longitude":8},"strange":{"a":1},
            "title":"T","price":2.5,"stars":5}}}}
            """#
        let json = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [AnyHashable: Any])
        let query = try #require(CKQueryNotification(fromRemoteNotificationDictionary: json))
        let fields = try #require(query.recordFields)
        let session = try #require(fields["session"] as? CKRecord.Reference)
        #expect(session.recordID == CKRecord.ID(recordName: "one", zoneID: zoneID) && session.action == .deleteSelf)
        #expect((fields["about"] as? CKRecord.Reference)?.action == CKRecord.ReferenceAction.none)
        let place = try #require(fields["place"] as? CLLocation)
        #expect(place.coordinate.latitude == 50.5 && place.coordinate.longitude == 8 && fields["strange"] == nil)
        #expect(fields["title"] as? String == "T" && fields["price"] as? Double == 2.5 && fields["stars"] as? Int == 5)
    }
}
