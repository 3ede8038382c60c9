import Foundation
import Records
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// Notices without a real network: hello, subscriptions, changes and disconnections.
@Suite(.timeLimit(.minutes(15))) struct TestNoticeTests {
    /// Collects the events of a device's notice socket.
    private final class Listener: Sendable {
        let socket: any Socket
        private let events: AsyncStream<SocketEvent>

        init(_ device: TestDevice, since: [DatabaseScope: String] = [:]) throws {
            let (events, event) = AsyncStream<SocketEvent>.makeStream()
            self.events = events
            let address = try #require(device.connection.noticeAddress)
            let connector = try #require(device.connection.sockets)
            socket = connector.connect(to: address, subprotocol: "zonecast.notices.1") { event.yield($0) }
            let hello = NoticeHello(
                deviceID: device.connection.deviceID,
                apiToken: nil,
                webAuthToken: device.connection.credentials.webAuthToken,
                since: since
            )
            socket.send(text: ClientFrame.hello(hello).encoded)
        }

        func next() async -> SocketEvent? {
            var iterator = events.makeAsyncIterator()
            return await iterator.next()
        }

        func nextFrame() async throws -> ServerFrame? {
            guard case .text(let text)? = await next() else { return nil }
            return try ServerFrame(decoding: text)
        }

        func nextNotice() async throws -> Notice? {
            guard case .notice(let notice)? = try await nextFrame() else { return nil }
            return notice
        }
    }

    private let relay: TestRelay
    private let phone: TestDevice
    private let laptop: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        laptop = relay.device(of: "alice", named: "laptop")
    }

    private func listening() async throws -> Listener {
        try await laptop.privateDatabase.save(CKDatabaseSubscription(subscriptionID: "all"))
        let listener = try Listener(laptop)
        #expect(await listener.next() == .opened)
        guard case .ready(let ready)? = try await listener.nextFrame() else {
            Issue.record("the relay sent no ready frame")
            return listener
        }
        #expect(ready.subscriptions == ["all"])
        #expect(CKRecord.ID(recordName: ready.userRecordName) == (try await laptop.container.userRecordID()))
        return listener
    }

    @Test func onlyOtherDevicesReceiveANoticeOfAChange() async throws {
        let listener = try await listening()
        let zone = try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes")).zoneID
        let made = try #require(try await listener.nextNotice())
        #expect(made.scope == .private)
        #expect(made.zone?.zoneName == "Notes")
        #expect(made.subscriptionID == "all")

        try await laptop.privateDatabase.save(CKRecord(recordType: "Note", zoneID: zone))
        try await phone.privateDatabase.save(CKRecord(recordType: "Note", zoneID: zone))
        let changed = try #require(try await listener.nextNotice())
        // If the laptop received a notice of its own change, that change's token would come first.
        let now = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        #expect(changed.syncToken == now.encoded)
        await relay.deliverNotices()
        #expect(laptop.network.frames.count == 3)
    }

    @Test func aHelloWithAnOldTokenReceivesTheMissedNotices() async throws {
        try await laptop.privateDatabase.save(CKDatabaseSubscription(subscriptionID: "all"))
        let token = try await laptop.privateDatabase.databaseChanges(since: nil).changeToken
        try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes"))
        let listener = try Listener(laptop, since: [.private: token.encoded])
        #expect(await listener.next() == .opened)
        guard case .ready? = try await listener.nextFrame() else {
            Issue.record("the relay sent no ready frame")
            return
        }
        #expect(try await listener.nextNotice()?.zone?.zoneName == "Notes")
    }

    @Test func cuttingTheNetworkEndsTheSocket() async throws {
        let listener = try await listening()
        laptop.network.cut()
        #expect(await listener.next() == .closed(code: nil))
        let refused = try Listener(laptop)
        #expect(await refused.next() == .closed(code: nil))
    }

    @Test func aRestartSendsGoodbye() async throws {
        let listener = try await listening()
        try relay.restart()
        guard case .goodbye? = try await listener.nextFrame() else {
            Issue.record("the relay sent no goodbye")
            return
        }
        #expect(await listener.next() == .closed(code: 1001))
    }

    @Test func aSocketWithoutHelloIsClosedAfterATimeout() async throws {
        let (events, event) = AsyncStream<SocketEvent>.makeStream()
        let address = try #require(laptop.connection.noticeAddress)
        let socket = try #require(laptop.connection.sockets)
            .connect(to: address, subprotocol: "zonecast.notices.1") { event.yield($0) }
        var received = events.makeAsyncIterator()
        #expect(await received.next() == .opened)
        relay.clock.advance(by: .seconds(11))
        #expect(await received.next() == .closed(code: 4408))
        socket.drop()
    }
}
