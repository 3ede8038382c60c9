import Foundation
import Records
import SyncCore
import Testing

@Suite struct NoticeConnectionStateTests {
    private var random = HighestRandom()

    private func live(since start: Instant) -> NoticeConnectionState {
        var random = HighestRandom()
        var line = NoticeConnectionState()
        _ = line.handle(.started, at: start, using: &random)
        _ = line.handle(.opened, at: start, using: &random)
        _ = line.handle(.ready, at: start, using: &random)
        return line
    }

    private func wait(_ effects: [NoticeConnectionState.Effect], from now: Instant) -> Double? {
        for case .wake(let moment?) in effects { return (moment - now).inSeconds }
        return nil
    }

    @Test mutating func aConnectionSendsItsHelloAndGoesLive() {
        var line = NoticeConnectionState()
        #expect(line.handle(.started, at: at(0), using: &random) == [.connect, .wake(at: at(10))])
        #expect(line.handle(.opened, at: at(1), using: &random) == [.sendHello, .wake(at: at(11))])
        #expect(line.handle(.ready, at: at(2), using: &random) == [.isLive(true), .wake(at: at(47))])
    }

    @Test mutating func aSilentConnectionIsPingedAndThenDropped() {
        var line = live(since: at(0))
        #expect(line.handle(.timerFired, at: at(45), using: &random) == [.ping, .wake(at: at(60))])
        _ = line.handle(.dataReceived, at: at(46), using: &random)
        #expect(line.handle(.timerFired, at: at(60), using: &random) == [.wake(at: at(91))])
        #expect(line.handle(.timerFired, at: at(91), using: &random) == [.ping, .wake(at: at(106))])
        let dead = line.handle(.timerFired, at: at(106), using: &random)
        #expect(dead.prefix(2) == [.drop, .isLive(false)])
        #expect(wait(dead, from: at(106)) != nil)
    }

    /// The effect of each close code on a young connection, with the highest jitter.
    @Test(
        arguments: [
            (nil, 0.5), (1000, 0.5), (1001, 0.5), (1002, 60), (1007, 60), (1008, 60), (1009, 60), (1011, 0.5),
            (1012, 0.5),
            (1013, 0.5), (4400, nil), (4401, nil), (4403, nil), (4408, nil), (4409, nil), (4449, nil), (4450, 0.5),
            (4451, 0.5), (4499, 0.5), (4999, 0.5),
        ] as [(UInt16?, Double?)]
    )
    func theCloseCodeDeterminesTheNextAttempt(_ row: (code: UInt16?, wait: Double?)) {
        var random = HighestRandom()
        var line = live(since: at(0))
        let effects = line.handle(.closed(code: row.code), at: at(1), using: &random)
        #expect(effects.first == .isLive(false))
        if let expected = row.wait {
            #expect(abs((wait(effects, from: at(1)) ?? -1) - expected) < 0.001)
        } else {
            #expect(effects.contains(.needsCredentials(isRenewable: false)))
            #expect(wait(effects, from: at(1)) == nil, "the client waits until the credentials change")
            #expect(line.handle(.timerFired, at: at(1000), using: &random) == [.wake(at: nil)])
            #expect(line.handle(.credentialsChanged, at: at(1001), using: &random).first == .connect)
        }
        #expect(effects.contains(.needsCredentials(isRenewable: true)) == (row.code == 4450))
    }

    /// A refused request has signed in again before the relay closes the connection of the former session.
    @Test mutating func aRefusalOfOldCredentialsIsRetriedWithTheNewOnes() {
        for events in [[NoticeConnectionState.Event.opened, .ready], [.opened], []] {
            var line = NoticeConnectionState()
            for event in [.started] + events + [.credentialsChanged] {
                _ = line.handle(event, at: at(0), using: &random)
            }
            let closed = line.handle(.closed(code: 4401), at: at(1), using: &random)
            #expect(abs((wait(closed, from: at(1)) ?? -1) - 0.5) < 0.001)
            _ = line.handle(.timerFired, at: at(2), using: &random)
            _ = line.handle(.opened, at: at(2), using: &random)
            let again = line.handle(.closed(code: 4401), at: at(3), using: &random)
            #expect(again.contains(.needsCredentials(isRenewable: false)), "the new credentials were refused")
        }
    }

    @Test mutating func aGoodbyeSetsTheTimeOfTheNextAttempt() {
        var line = live(since: at(0))
        _ = line.handle(.goodbye(retryAfter: .seconds(2)), at: at(1), using: &random)
        let closed = line.handle(.closed(code: 1012), at: at(1), using: &random)
        #expect(wait(closed, from: at(1)) == 2)
        #expect(line.handle(.timerFired, at: at(3), using: &random).first == .connect)
    }

    /// Otherwise a relay that keeps promising an immediate return would be called in a tight loop.
    @Test mutating func anImmediateReturnStillWaitsBriefly() {
        var line = live(since: at(0))
        _ = line.handle(.goodbye(retryAfter: .zero), at: at(1), using: &random)
        #expect(wait(line.handle(.closed(code: 1012), at: at(1), using: &random), from: at(1)) == 0.5)
    }

    @Test mutating func theBackOffDoublesUpTo60SecondsAndRestartsAfterAHealthyMinute() {
        var line = NoticeConnectionState()
        var now = at(0)
        var effects = line.handle(.started, at: now, using: &random)
        for expected in [0.5, 1, 2, 4, 8, 16, 32, 60, 60] {
            effects = line.handle(.closed(code: nil), at: now, using: &random)
            #expect(abs((wait(effects, from: now) ?? -1) - expected) < 0.001)
            now = now + .seconds(60)
            #expect(line.handle(.timerFired, at: now, using: &random).first == .connect)
        }
        _ = line.handle(.opened, at: now, using: &random)
        _ = line.handle(.ready, at: now, using: &random)
        effects = line.handle(.closed(code: 1001), at: now + .seconds(61), using: &random)
        #expect(abs((wait(effects, from: now + .seconds(61)) ?? -1) - 0.5) < 0.001)
    }

    @Test mutating func anUnansweredHelloTimesOut() {
        var line = NoticeConnectionState()
        _ = line.handle(.started, at: at(0), using: &random)
        _ = line.handle(.opened, at: at(1), using: &random)
        #expect(line.handle(.timerFired, at: at(11), using: &random).first == .drop)
    }

    /// A refusal does not mean that the credentials are wrong, because the client has not sent them yet; the client
    /// retries by itself.
    @Test(arguments: [(401, 60), (403, 60), (421, 60), (404, 60), (426, 60), (429, 0.5), (503, 0.5), (500, 0.5)])
    func theStatusOfARefusedUpgradeDeterminesTheWait(_ row: (status: Int, wait: Double)) {
        var random = HighestRandom()
        var line = NoticeConnectionState()
        _ = line.handle(.started, at: at(0), using: &random)
        let effects = line.handle(.refused(status: row.status), at: at(0), using: &random)
        #expect(abs((wait(effects, from: at(0)) ?? -1) - row.wait) < 0.001)
    }

    /// A response to any request shows that a relay is back after a long absence.
    @Test mutating func aResponseEndsTheWaitForARelayThatWasDown() {
        var line = live(since: at(0))
        for minute in 1...20 {
            _ = line.handle(.closed(code: nil), at: at(60 * Double(minute)), using: &random)
            guard minute < 20 else { break }
            _ = line.handle(.timerFired, at: at(60 * Double(minute) + 60), using: &random)
        }
        #expect(line.handle(.requestAnswered, at: at(1201), using: &random).first == .connect)
        #expect(line.handle(.requestAnswered, at: at(1201), using: &random).isEmpty, "an attempt is under way")
    }

    /// If a proxy passes requests but not sockets, every response would otherwise cause an attempt.
    @Test mutating func aResponseEndsOneWaitUntilTheConnectionStateChanges() {
        var line = live(since: at(0))
        _ = line.handle(.closed(code: nil), at: at(1), using: &random)
        #expect(line.handle(.requestAnswered, at: at(1), using: &random).first == .connect)
        _ = line.handle(.closed(code: nil), at: at(1), using: &random)
        #expect(line.handle(.requestAnswered, at: at(1), using: &random).isEmpty)
        #expect(line.handle(.requestUnanswered, at: at(1), using: &random).isEmpty)
        #expect(line.handle(.requestAnswered, at: at(1), using: &random).first == .connect, "one request failed")
        _ = line.handle(.refused(status: 502), at: at(1), using: &random)
        #expect(line.handle(.requestAnswered, at: at(1), using: &random).isEmpty)
        #expect(line.handle(.timerFired, at: at(61), using: &random).first == .connect)
        _ = line.handle(.refused(status: 502), at: at(61), using: &random)
        #expect(line.handle(.requestAnswered, at: at(61), using: &random).first == .connect, "a wait has passed")
        _ = line.handle(.opened, at: at(61), using: &random)
        _ = line.handle(.ready, at: at(61), using: &random)
        _ = line.handle(.closed(code: nil), at: at(62), using: &random)
        #expect(line.handle(.requestAnswered, at: at(62), using: &random).first == .connect, "it was live meanwhile")
    }

    /// A wait that the relay or a proxy asked for is kept, even if the relay answers requests.
    @Test(arguments: [1002, 1008, 1012, 1013, 4401, 4450, 4451] as [UInt16])
    func aResponseDoesNotEndAWaitThatTheRelayAskedFor(_ code: UInt16) {
        var random = HighestRandom()
        var line = live(since: at(0))
        _ = line.handle(.closed(code: code), at: at(1), using: &random)
        #expect(line.handle(.requestAnswered, at: at(1), using: &random).isEmpty)
    }

    @Test(arguments: [401, 404, 426, 429, 503])
    func aResponseDoesNotEndTheWaitAfterARefusal(_ status: Int) {
        var random = HighestRandom()
        var line = NoticeConnectionState()
        _ = line.handle(.started, at: at(0), using: &random)
        _ = line.handle(.refused(status: status), at: at(0), using: &random)
        #expect(line.handle(.requestAnswered, at: at(0), using: &random).isEmpty)
    }

    @Test mutating func aStoppedConnectionStaysStopped() {
        var line = live(since: at(0))
        #expect(line.handle(.stopped, at: at(1), using: &random) == [.isLive(false), .drop, .wake(at: nil)])
        #expect(line.handle(.closed(code: 1000), at: at(1), using: &random).isEmpty)
        #expect(line.handle(.credentialsChanged, at: at(2), using: &random).isEmpty)
    }
}

/// The rows of `Tests/NoticeLineTable.json` hold for this client and for `zonecast.js`, which `ClientModuleTests`
/// tests.
@Suite struct NoticeConnectionStateTableTests {
    struct Row: Decodable, CustomTestStringConvertible {
        struct Step: Decodable {
            var at: Double
            var event: String
            var value: Double?
            var effects: [String]
        }

        var name: String
        /// Determines random draws: 0 for the bottom of their range, 1 for the top.
        var chance: Int
        var steps: [Step]
        var testDescription: String { name }
    }

    static let rows: [Row] = {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let table = tests.appendingPathComponent("NoticeLineTable.json")
        return (try? JSONDecoder().decode([Row].self, from: Data(contentsOf: table))) ?? []
    }()

    @Test("the table can be read")
    func table() { #expect(Self.rows.count > 30) }

    @Test("the Swift client reacts as the table says", arguments: rows)
    func reactions(_ row: Row) throws {
        var line = NoticeConnectionState()
        for step in row.steps {
            let event = try #require(Self.event(step), "\(step.event) is no event")
            let effects =
                row.chance == 0
                ? Self.handle(event, step, &line, LowestRandom()) : Self.handle(event, step, &line, HighestRandom())
            #expect(effects == step.effects, "\(step.event) at \(step.at) s")
        }
    }

    private static func handle(
        _ event: NoticeConnectionState.Event,
        _ step: Row.Step,
        _ line: inout NoticeConnectionState,
        _ random: some RandomNumberGenerator
    ) -> [String] {
        var random = random
        return line.handle(event, at: at(step.at), using: &random).map { words($0, at(step.at)) }
    }

    private static func event(_ step: Row.Step) -> NoticeConnectionState.Event? {
        switch step.event {
        case "started": .started
        case "opened": .opened
        case "ready": .ready
        case "heard": .dataReceived
        case "goodbye": .goodbye(retryAfter: step.value.map { .seconds($0) })
        case "closed": .closed(code: step.value.map { UInt16($0) })
        case "credentialsChanged": .credentialsChanged
        case "networkReturned": .networkReturned
        case "timerFired": .timerFired
        case "stopped": .stopped
        default: nil
        }
    }

    private static func words(_ effect: NoticeConnectionState.Effect, _ now: Instant) -> String {
        switch effect {
        case .connect: "connect"
        case .sendHello: "sendHello"
        case .ping: "ping"
        case .drop: "drop"
        case .wake(nil): "wake"
        case .wake(let moment?): "wake \(seconds((moment - now).inSeconds))"
        case .isLive(let isLive): isLive ? "live" : "lost"
        case .needsCredentials(let isRenewable): isRenewable ? "needsCredentials renewable" : "needsCredentials"
        }
    }

    /// Formats seconds with up to three digits, whole seconds without a fraction.
    private static func seconds(_ seconds: Double) -> String {
        let rounded = (seconds * 1000).rounded() / 1000
        return Int(exactly: rounded).map(String.init) ?? "\(rounded)"
    }
}
