import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

/// A thousand devices of forty users on a real port, some slow and some gone.
///
/// Each gets the notices that are for it, and no others.
@Suite(.timeLimit(.minutes(15))) struct ThousandSocketTests {
    private static let users = 40
    private static let devices = 25
    private static let zones = (0..<4).map { "zone-\($0)" }
    private static let rounds = 3

    /// How a device behaves, by its number.
    private enum Behavior {
        /// Makes the changes itself, so it gets no notices of them.
        case writer
        /// Disconnects before the changes.
        case leaver
        /// Reads nothing until all changes are made.
        case sleeper
        case listener

        init(_ device: Int) {
            self = device == 0 ? .writer : device % 10 == 1 ? .leaver : device % 10 == 2 ? .sleeper : .listener
        }
    }

    /// The tokens of a user's zones after each change, oldest first.
    private typealias History = [String: [String]]

    @Test func eachDeviceGetsTheNoticesOfItsUsersZonesInOrder() async throws {
        try Self.allowManySockets()
        let relay = try NoticePort()
        for user in 0..<Self.users { try await relay.prepare(user, zones: Self.zones) }
        let service = NoticeService(hub: relay.hub, admission: relay.admission)
        try await withServer(notices: service, respond: { await relay.relay.respond(to: $0) }) { port in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for user in 0..<Self.users { group.addTask { try await Self.run(user, on: port, relay) } }
                try await group.waitForAll()
            }
        }
    }

    private static func run(_ user: Int, on port: Int, _ relay: NoticePort) async throws {
        let token = try await relay.databaseToken(of: user)
        var sockets: [SocketPeer] = []
        for device in 0..<devices {
            sockets.append(try await listen(user, device, since: token, port: port))
            if case .sleeper = Behavior(device) { try await sockets[device].peer.stopReading() }
            if case .leaver = Behavior(device) { await sockets[device].close() }
        }
        var history = History()
        for round in 0..<rounds {
            for zone in zones {
                history[zone, default: []].append(try await relay.change(zone, of: user, record: "r\(round)"))
            }
        }
        let last = try await relay.change(zones[0], of: user, record: "last", device: "another")
        history[zones[0], default: []].append(last)
        let heard = history
        for device in 0..<devices {
            switch Behavior(device) {
            case .leaver: continue
            case .writer: try await expect(only: last, on: sockets[device])
            case .sleeper:
                try await sockets[device].peer.startReading()
                try await expect(heard, on: sockets[device], name: "user \(user) device \(device)")
            case .listener: try await expect(heard, on: sockets[device], name: "user \(user) device \(device)")
            }
        }
        for socket in sockets { await socket.close() }
    }

    /// Opens a socket and waits for its `ready`.
    private static func listen(_ user: Int, _ device: Int, since: String, port: Int) async throws -> SocketPeer {
        let hello = NoticeHello(
            deviceID: "device-\(device)",
            apiToken: "x",
            webAuthToken: "dev-user\(user)",
            since: [.private: since]
        )
        let socket = try await SocketPeer.connect(
            port: port,
            path: "/push/1/\(NoticePort.container)/development",
            early: SocketPeer.frame(0x81, ClientFrame.hello(hello).encoded)
        )
        let frames = try await socket.frames(1, waitingFor: "ready of user \(user) device \(device)")
        guard let first = frames.first, case .ready = try ServerFrame(decoding: first.payload) else {
            throw RawPeer.TimedOut(description: "no ready but \(frames.first?.text ?? "the end")")
        }
        return socket
    }

    /// Waits for the last token of every zone and checks all notices before it.
    private static func expect(_ history: History, on socket: SocketPeer, name: String) async throws {
        let frames = try await socket.frames(waitingFor: "the last notices of \(name)") { frames in
            let heard = Dictionary(grouping: frames.compactMap(notice), by: \.zone).mapValues { $0.last?.token }
            return history.allSatisfy { heard[$0.key] == $0.value.last }
        }
        let notices = Dictionary(grouping: frames.compactMap(notice), by: \.zone).mapValues { $0.map(\.token) }
        #expect(Set(notices.keys) == Set(history.keys), "\(name)")
        for (zone, tokens) in notices {
            // Merging may drop tokens, but never reorders, repeats or invents them.
            let places = tokens.map { history[zone]?.firstIndex(of: $0) }
            #expect(
                places.allSatisfy { $0 != nil } && places.compactMap { $0 } == Set(places.compactMap { $0 }).sorted()
            )
        }
    }

    /// The writer's first notice is of the change that another device made.
    private static func expect(only token: String, on socket: SocketPeer) async throws {
        let frames = try await socket.frames(2, waitingFor: "the writer's one notice")
        #expect(frames.compactMap(notice).map(\.token) == [token])
    }

    private static func notice(_ frame: SocketPeer.Frame) -> (zone: String, token: String)? {
        guard frame.opcode == 1, case .notice(let notice) = try? ServerFrame(decoding: frame.payload) else {
            return nil
        }
        return (notice.zone?.zoneName ?? "", notice.syncToken ?? "")
    }

    /// Both ends of the thousand sockets are in this process.
    private static func allowManySockets() throws {
        var limit = rlimit()
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < 4096 else { return }
        limit.rlim_cur = min(4096, limit.rlim_max)
        #expect(setrlimit(resource, &limit) == 0, "this machine allows a process \(limit.rlim_max) files")
    }
}

/// A relay in memory that sends notices from a port.
final class NoticePort: Sendable {
    static let container = "iCloud.org.example.crowd"
    let relay: Relay
    let hub: NoticeHub
    let admission: RelayAdmission
    let directory: any AccountDirectory

    init() throws {
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        settings.requestRate = nil
        directory = try TestStore.current.makeHome().accounts()
        let drawn = Mutex(SplitMix(seed: 7))
        // No socket is pinged or closed while a busy machine delays its test.
        var limits = NoticeLimits()
        (limits.helloTime, limits.pingInterval, limits.fullTime) = (.seconds(3600), .seconds(3600), .seconds(3600))
        let hub = NoticeHub(
            limits: limits,
            relayName: "test",
            noticeID: { String(drawn.withLock { $0.next() }, radix: 16) }
        )
        let notices = CommitNotices(hub.bus)
        let stores = TestStore.current.makeHome().stores(
            TestStoreOptions(
                draw: { drawn.withLock { $0.next() } },
                committed: { home, commit in notices.publish(commit, of: home) }
            )
        )
        self.hub = hub
        relay = Relay(
            authenticator: try Authenticator(directory: directory, settings: settings, time: .system, random: .system),
            stores: stores,
            hub: hub,
            time: .system,
            random: .system
        )
        admission = RelayAdmission(relay: relay, hub: hub, time: .system)
    }

    /// Calls an operation of the user's private or another database; throws if the status is not 200.
    func ask(
        _ operation: String,
        of user: Int,
        in database: String = "private",
        device: String = "device-0",
        _ body: String
    ) async throws -> JSONValue {
        var request = APIRequest(
            method: .post,
            path: "/database/1/\(Self.container)/development/\(database)/\(operation)",
            query: "ckAPIToken=x&ckWebAuthToken=dev-user\(user)",
            body: Array(body.utf8)
        )
        request.headers[.known("X-Zonecast-Device-ID")] = device
        let response = await relay.respond(to: request)
        guard response.status == .ok else {
            throw RawPeer.TimedOut(description: "\(operation): \(String(decoding: response.body, as: UTF8.self))")
        }
        return try JSONDocument(parsing: response.body).root
    }

    func prepare(_ user: Int, zones: [String]) async throws {
        let creates = zones.map { #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"# }
        _ = try await ask("zones/modify", of: user, #"{"operations":[\#(creates.joined(separator: ","))]}"#)
        _ = try await ask(
            "subscriptions/modify",
            of: user,
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"all","subscriptionType":"database"}}]}"#
        )
    }

    func databaseToken(of user: Int) async throws -> String {
        try await ask("changes/database", of: user, "{}").required("syncToken").string()
    }

    /// Saves a record and returns the zone's token after it.
    func change(_ zone: String, of user: Int, record: String, device: String = "device-0") async throws -> String {
        let save =
            #"{"operationType":"forceReplace","record":{"recordName":"\#(record)","recordType":"Note","fields":{}}}"#
        let body = #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(save)]}"#
        return try await ask("records/modify", of: user, device: device, body).required("syncToken").string()
    }
}
