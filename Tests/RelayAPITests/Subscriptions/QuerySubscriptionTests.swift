import Foundation
import Records
import RelayAPI
import RelayCore
import StoreTesting
import TestSupport
import Testing
import Wire

@Suite(.timeLimit(.minutes(15))) struct QuerySubscriptionTests {
    private let done = #"{"comparator":"EQUALS","fieldName":"done","fieldValue":{"value":1}}"#

    /// Returns `subscription:record:reason` of each notice.
    private func receivedNotices(_ device: TestDevice) -> [String] {
        device.notices.map { "\($0.subscriptionID):\($0.query?.recordName ?? "*"):\($0.query?.reason?.rawValue ?? 0)" }
    }

    @Test func creationsChangesAndDeletionsAreNotified() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("all")
        let phone = await world.device()
        try await world.change("a", #"{"n":{"value":1}}"#)
        try await world.change("a", #"{"n":{"value":2}}"#)
        try await world.change("a", by: "forceDelete")
        try await world.change("other", type: "Task")
        await world.settle()
        #expect(receivedNotices(phone) == ["all:a:1", "all:a:2", "all:a:4"])
        let notice = try #require(phone.notices.first)
        #expect(notice.scope == .private && notice.zone?.zoneName == "_defaultZone" && notice.aps == nil)
    }

    /// Zone and database subscriptions do not cover the default zone, so they do not replace a query's notice.
    @Test func aDatabaseSubscriptionDoesNotReplaceNoticesOfTheDefaultZone() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("all")
        let wide =
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionType":"database"}},"#
            + #"{"operationType":"create","subscription":{"subscriptionType":"zone"}}]}"#
        _ = try await world.ask("private/subscriptions/modify", wide)
        let phone = await world.device()
        try await world.change("a", #"{"n":{"value":1}}"#)
        await world.settle()
        #expect(receivedNotices(phone) == ["all:a:1"])
    }

    @Test func onlyRequestedEventsOfMatchingRecordsFire() async throws {
        let world = try SubscriptionWorld()
        try await world.change("seed", #"{"done":{"value":0}}"#)
        try await world.subscribe("updates", filters: done, on: #""update""#)
        let phone = await world.device()
        try await world.change("a", #"{"done":{"value":1}}"#)
        try await world.change("a", #"{"done":{"value":0}}"#)
        try await world.change("a", #"{"done":{"value":1}}"#)
        try await world.change("a", by: "forceDelete")
        await world.settle()
        // Neither the creation nor the change to a record that does not match is among its events.
        #expect(receivedNotices(phone) == ["updates:a:2"])
    }

    @Test func aDeletionIsMatchedAgainstTheDeletedRecord() async throws {
        let world = try SubscriptionWorld()
        try await world.change("yes", #"{"done":{"value":1}}"#)
        try await world.change("no", #"{"done":{"value":0}}"#)
        try await world.subscribe("gone", filters: done, on: #""delete""#)
        let phone = await world.device()
        try await world.change("no", by: "forceDelete")
        try await world.change("yes", by: "forceDelete")
        await world.settle()
        #expect(receivedNotices(phone) == ["gone:yes:4"])
    }

    @Test func theWritingDeviceGetsNoNotice() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("all")
        let phone = await world.device("phone")
        let laptop = await world.device("laptop")
        try await world.change("a", from: "phone")
        await world.settle()
        #expect(receivedNotices(phone).isEmpty)
        #expect(receivedNotices(laptop) == ["all:a:1"])
    }

    @Test func aSubscriptionThatFiresOnceIsRemovedAfterwards() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("once", extra: #","firesOnce":true"#)
        // No device is connected, so the subscription keeps waiting.
        try await world.change("early")
        await world.settle()
        let phone = await world.device()
        try await world.change("a")
        try await world.change("b")
        await world.settle()
        #expect(receivedNotices(phone) == ["once:a:1"])
        try await eventually("the store to remove the subscription") {
            try await world.ask("private/subscriptions/list").items("subscriptions").isEmpty
        }
    }

    @Test func aSubscriptionThatFiresOnceNotifiesAReturningDeviceOnce() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        try await world.makeZone("Others")
        try await world.subscribe("once", extra: #","firesOnce":true"#)
        let token = try #require(try await world.ask("private/changes/database").json.text("syncToken"))
        for name in ["a", "b", "c"] { try await world.change(name, zone: "Notes") }
        try await world.change("d", zone: "Others")
        await world.settle()
        let phone = await world.device(since: [.private: token])
        await world.settle()
        #expect(receivedNotices(phone) == ["once:a:1"])
        try await eventually("the store to remove the subscription") {
            try await world.ask("private/subscriptions/list").items("subscriptions").isEmpty
        }
    }

    @Test func aWiderSubscriptionReplacesOnesWithoutAlerts() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        try await world.subscribe("silent")
        try await world.subscribe("loud", extra: #","notificationInfo":{"alertBody":"changed"}"#)
        _ = try await world.ask(
            "private/subscriptions/modify",
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"db","subscriptionType":"database"}}]}"#
        )
        let phone = await world.device()
        try await world.change("a", zone: "Notes")
        await world.settle()
        #expect(Set(phone.notices.map(\.subscriptionID)) == ["db", "loud"])
    }

    @Test func aZoneSubscriptionMayHaveAnAlert() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        _ = try await world.ask(
            "private/subscriptions/modify",
            """
            {"operations":[{"operationType":"create","subscription":{"subscriptionID":"db","subscriptionType":"database"}},
            {"operationType":"create","subscription":{"subscriptionID":"zone","subscriptionType":"zone",
            "zoneID":{"zoneName":"Notes"},"notificationInfo":{"alertBody":"new","soundName":"default"}}}]}
            """
        )
        let phone = await world.device()
        // A connecting device gets missed changes without an alert.
        #expect(!phone.notices.isEmpty && phone.notices.allSatisfy { $0.aps == nil })
        let count = phone.notices.count
        try await world.change("a", zone: "Notes")
        await world.settle()
        #expect(phone.notices.dropFirst(count).map(\.subscriptionID) == ["zone"])
        #expect(phone.notices.last?.aps == Array(#"{"alert":{"body":"new"},"sound":"default"}"#.utf8))
    }

    @Test func aSubscriptionMatchesOnlyItsZones() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        try await world.makeZone("Other")
        try await world.subscribe("one", extra: #","zoneID":{"zoneName":"Notes"}"#)
        try await world.subscribe("default", extra: #","zoneWide":false"#)
        let phone = await world.device()
        for zone in ["Notes", "Other", "_defaultZone"] { try await world.change("r-\(zone)", zone: zone) }
        await world.settle()
        #expect(receivedNotices(phone) == ["one:r-Notes:1", "default:r-_defaultZone:1"])
    }

    @Test func aReferenceThatNamesAZoneMatchesInThatZoneOnly() async throws {
        let world = try SubscriptionWorld()
        for zone in ["Notes", "Other"] { try await world.makeZone(zone) }
        let folder = #"{"folder":{"value":{"recordName":"f","action":"NONE"}}}"#
        try await world.change("seed", folder, zone: "Notes")
        let named = #"{"value":{"recordName":"f","zoneID":{"zoneName":"Notes"}}}"#
        try await world.subscribe(
            "notes",
            filters: #"{"comparator":"EQUALS","fieldName":"folder","fieldValue":\#(named)}"#
        )
        let phone = await world.device()
        for zone in ["Notes", "Other"] { try await world.change("r-\(zone)", folder, zone: zone) }
        await world.settle()
        #expect(receivedNotices(phone) == ["notes:r-Notes:1"])
    }

    @Test func alertsContainTheDesiredFields() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe(
            "alert",
            extra: """
                ,"notificationInfo":{"alertLocalizationKey":"NEW %@","alertLocalizationArgs":["title","missing"],
                "soundName":"default","shouldBadge":true,"category":"c","additionalFields":["title","n","missing"]}
                """
        )
        let phone = await world.device()
        try await world.change("a", #"{"title":{"value":"Milk \"1\""},"n":{"value":7}}"#)
        await world.settle()
        let text = try #require(phone.sent.last.map { String(decoding: $0.text, as: UTF8.self) })
        #expect(text.contains(#""loc-key":"NEW %@","loc-args":["Milk \"1\"",""]"#))
        #expect(text.contains(#""sound":"default","badge":1,"category":"c""#))
        #expect(text.contains(#""rid":"a","fo":1,"af":{"title":"Milk \"1\"","n":7}"#))
        #expect(!text.contains("content-available"))
    }

    @Test func aNoticeThatIsTooLargeIsPruned() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("big", extra: #","notificationInfo":{"alertBody":"x","desiredKeys":["title"]}"#)
        let phone = await world.device()
        try await world.change("a", #"{"title":{"value":"\#(String(repeating: "m", count: 5_000))"}}"#)
        await world.settle()
        let notice = try #require(phone.notices.last)
        #expect(notice.query?.isPruned == true && notice.query?.fields == nil)
        #expect(phone.sent.last.map { $0.text.count < 1_000 } == true)
    }

    @Test func noticesAreLimitedToReadableDatabases() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("all", in: "public", as: "bob")
        let phone = await world.device(of: "bob")
        try await world.change("a", in: "public")
        await world.settle()
        #expect(phone.notices.map(\.scope) == [.public])
        #expect(receivedNotices(phone) == ["all:a:1"])
        // Alice's private database stays hidden from Bob, though his query would match.
        try await world.subscribe("mine", as: "bob")
        phone.forget()
        try await world.change("secret")
        await world.settle()
        #expect(receivedNotices(phone).isEmpty)
    }

    @Test func missedChangesAreSentOnReconnecting() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        try await world.change("old", #"{"done":{"value":1}}"#, zone: "Notes")
        try await world.subscribe("done", filters: done)
        let token = try #require(try await world.ask("private/changes/database").json.text("syncToken"))
        try await world.change("a", #"{"done":{"value":1}}"#, zone: "Notes")
        try await world.change("b", #"{"done":{"value":0}}"#, zone: "Notes")
        let phone = await world.device(since: [.private: token])
        #expect(receivedNotices(phone) == ["done:a:1"])
        for number in 0..<25 { try await world.change("r\(number)", #"{"done":{"value":1}}"#, zone: "Notes") }
        let laptop = await world.device("laptop", since: [.private: token])
        #expect(receivedNotices(laptop) == ["done:*:0"])
        #expect(laptop.zones == ["Notes"])
    }

    @Test func aRecordCreatedAndChangedMeanwhileIsNotifiedAsCreated() async throws {
        let clock = HandClock()
        let world = try SubscriptionWorld(time: clock.source)
        try await world.makeZone("Notes")
        for name in ["old", "kept"] {
            try await world.change(name, #"{"done":{"value":1}}"#, zone: "Notes")
            clock.advance(.milliseconds(1))
        }
        let alert = #","notificationInfo":{"alertBody":"x"}"#
        try await world.subscribe("born", filters: done, on: #""create""#, extra: alert)
        try await world.subscribe("changed", filters: done, on: #""update""#, extra: alert)
        let token = try #require(try await world.ask("private/changes/database").json.text("syncToken"))
        try await world.change("a", #"{"done":{"value":1}}"#, zone: "Notes")
        clock.advance(.milliseconds(1))
        try await world.change("a", #"{"done":{"value":1},"n":{"value":2}}"#, zone: "Notes")
        try await world.change("old", #"{"done":{"value":1},"n":{"value":2}}"#, zone: "Notes")
        let phone = await world.device(since: [.private: token])
        // The relay cannot tell whether a record changed since the device saw it, so it notifies of the change too.
        #expect(receivedNotices(phone) == ["born:a:1", "changed:a:2", "changed:old:2"])
    }

    @Test func theSubscriptionIndexIsRebuiltFromTheStore() async throws {
        let place = TestStore.current.makeHome(.lasting)
        let directory = try place.accounts()
        let first = try SubscriptionWorld(directory: directory, in: place)
        try await first.subscribe("all", extra: #","firesOnce":false,"notificationInfo":{"alertBody":"x"}"#)
        let before = try await first.ask("private/subscriptions/list")
        first.close()
        let second = try SubscriptionWorld(directory: directory, in: place)
        defer { second.close() }
        let after = try await second.ask("private/subscriptions/list")
        #expect(before.response.body == after.response.body)
        let phone = await second.device()
        try await second.change("a")
        await second.settle()
        #expect(receivedNotices(phone) == ["all:a:1"])
    }

    @Test func aSubscriptionMayPrecedeTheFirstRecordOfItsType() async throws {
        let world = try SubscriptionWorld()
        try await world.subscribe("early", type: "Later", filters: done)
        let phone = await world.device()
        try await world.change("a", #"{"done":{"value":1}}"#, type: "Later")
        try await world.change("b", #"{"done":{"value":2}}"#, type: "Later")
        await world.settle()
        #expect(receivedNotices(phone) == ["early:a:1"])
    }

    static let refused: [(body: String, reason: String)] = [
        (#""subscriptionID":"q1""#, "subscriptionType"),
        (#""subscriptionID":"q","subscriptionType":"query","firesOn":["create"]"#, "query"),
        (#""subscriptionID":"q","subscriptionType":"query","query":{"recordType":"Note"}"#, "firesOn"),
        (
            #""subscriptionID":"q","subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["born"]"#,
            "firesOn"
        ),
        (#""subscriptionID":"q","subscriptionType":"query","query":{"recordType":"Note"},"firesOn":[]"#, "firesOn"),
        (
            #""subscriptionID":"q","subscriptionType":"query","query":{"recordType":"Note","filterBy":[{"comparator":"IS","fieldName":"a","fieldValue":{"value":1}}]},"firesOn":["create"]"#,
            "comparator"
        ),
        (#""subscriptionID":"q","subscriptionType":"record""#, "subscriptionType"),
        (#""subscriptionID":"q","subscriptionType":"zone","notificationInfo":{"alertBody":1}"#, "alertBody"),
        (#""subscriptionType":"zone""#, "subscriptionID"),
    ]

    @Test(arguments: refused) func eachBadSubscriptionFailsAlone(_ row: (body: String, reason: String)) async throws {
        let world = try SubscriptionWorld()
        let answer = try await world.ask(
            "private/subscriptions/modify",
            """
            {"operations":[{"operationType":"create","subscription":{\(row.body)}},
            {"operationType":"create","subscription":{"subscriptionID":"good","subscriptionType":"database"}}]}
            """
        )
        #expect(answer.status == 200)
        let items = try answer.items("subscriptions")
        #expect(items.first?.text("serverErrorCode") == "BAD_REQUEST")
        #expect(items.first?.text("reason")?.contains(row.reason) == true, "\(items.first?.text("reason") ?? "")")
        #expect(items.last?.text("subscriptionID") == "good")
    }
}
