import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// The decisions of one connection, under a clock that the test advances.
@Suite struct NoticeSessionTests {
    static let hello = ClientFrame.hello(NoticeHello(deviceID: "D", webAuthToken: "w")).encoded

    /// Describes what a session did.
    private static func words(_ effects: [NoticeSession.Effect]) -> [String] {
        effects.map { effect in
            switch effect {
            case .send(let frame): kind(of: frame)
            case .ping: "ping"
            case .pong(let payload): "pong \(String(decoding: payload, as: UTF8.self))"
            case .admit(let hello): "admit \(hello.deviceID)"
            case .renew: "renew"
            case .close(let reason): "close \(reason.code)"
            }
        }
    }

    private static func kind(of frame: NoticeFrame) -> String {
        switch try? ServerFrame(decoding: frame.text) {
        case .ready: "ready"
        case .notice(let notice): "notice \(notice.zone?.zoneName ?? "*") \(notice.syncToken ?? "-")"
        case .renewed(let token): "renewed \(token)"
        case .goodbye(let reason, _): "goodbye \(reason)"
        case .pong: "pong"
        case .unknown, nil: "?"
        }
    }

    private struct Script {
        var session: NoticeSession
        var now = Duration.zero

        init(_ adjust: (inout NoticeLimits) -> Void = { _ in }) {
            var limits = NoticeLimits()
            adjust(&limits)
            session = NoticeSession(limits: limits, at: .zero)
        }

        mutating func live(tokenLife: Duration? = nil) {
            _ = after(.zero, .received(text: hello))
            _ = after(.zero, .admitted(tokenLife: tokenLife))
            _ = after(.zero, .caughtUp(ready: ready, missed: []))
        }

        mutating func after(_ time: Duration, _ event: NoticeSession.Event) -> [String] {
            now += time
            return words(session.handle(event, at: now))
        }

        /// Advances the clock from deadline to deadline.
        mutating func wait(_ time: Duration) -> [String] {
            let end = now + time
            var seen: [String] = []
            while session.nextDeadline <= end, !seen.contains(where: { $0.hasPrefix("close") }) {
                now = max(now, session.nextDeadline)
                seen += words(session.handle(.tick, at: now))
            }
            now = end
            return seen
        }
    }

    private static let ready = NoticeFrame(
        .ready(NoticeReady(userRecordName: "_u", subscriptions: [], pingInterval: 30, relay: "r"))
    )

    @Test("a ping frame is answered before and after the hello is, and counts against the frame rate")
    func pingFrames() {
        var script = Script { $0.frameRate = RateLimit(perSecond: 1, burst: 4) }
        let ping = NoticeSession.Event.received(text: ClientFrame.ping.encoded)
        _ = script.after(.zero, .received(text: Self.hello))
        #expect(script.after(.zero, ping) == ["pong"])
        _ = script.after(.zero, .admitted(tokenLife: nil))
        _ = script.after(.zero, .caughtUp(ready: Self.ready, missed: []))
        #expect(script.after(.zero, ping) == ["pong"])
        _ = script.after(.zero, .writabilityChanged(false))
        #expect(script.after(.zero, ping) == [], "a peer that does not read gets no more pongs")
        _ = script.after(.zero, .writabilityChanged(true))
        #expect(script.after(.zero, ping) == ["close 1008"])
    }

    @Test("a ping frame does not replace the hello")
    func aPingIsNoHello() {
        var script = Script()
        #expect(script.after(.zero, .received(text: ClientFrame.ping.encoded)) == ["close 4400"])
    }

    @Test func anAdmittedHelloIsFollowedByReady() {
        var script = Script()
        #expect(script.after(.seconds(1), .received(text: Self.hello)) == ["admit D"])
        #expect(script.after(.seconds(1), .admitted(tokenLife: nil)) == [])
        #expect(
            script.after(.zero, .caughtUp(ready: Self.ready, missed: [notice("A", "1")])) == ["ready", "notice A 1"]
        )
    }

    @Test func aConnectionWithoutATimelyHelloIsClosed() {
        var script = Script()
        #expect(script.wait(.seconds(9)) == [])
        #expect(script.wait(.seconds(2)) == ["close 4408"])
    }

    static let firstFrames = ["{", "{}", #"{"seen":{}}"#, #"{"wave":{}}"#, #"{"hello":{}}"#, "\u{0}"]

    @Test(arguments: firstFrames) func aFirstFrameOtherThanAHelloIsRefused(_ text: String) {
        var script = Script()
        #expect(script.after(.zero, .received(text: Array(text.utf8))) == ["close 4400"])
        #expect(script.after(.zero, .received(text: Self.hello)) == [])
    }

    @Test func aSecondHelloIsRefused() {
        var script = Script()
        script.live()
        #expect(script.after(.zero, .received(text: Self.hello)) == ["close 4400"])
    }

    @Test func seenAndUnknownFramesAreAccepted() {
        var script = Script()
        script.live()
        #expect(script.after(.zero, .received(text: ClientFrame.seen([.private: "t"]).encoded)) == [])
        #expect(script.after(.zero, .received(text: Array(#"{"wave":1}"#.utf8))) == [])
        #expect(script.after(.zero, .receivedBinary) == ["close 1003"])
    }

    @Test func refusedCredentialsCloseTheConnection() {
        var script = Script()
        _ = script.after(.zero, .received(text: Self.hello))
        #expect(script.after(.zero, .refused(.notAuthenticated)) == ["close 4401"])
    }

    @Test func twoMissedPongsCloseTheConnection() {
        var script = Script()
        script.live()
        #expect(script.wait(.seconds(59)) == ["ping"])
        #expect(script.after(.zero, .receivedPong) == [])
        #expect(script.wait(.seconds(60)) == ["ping", "ping"])
        #expect(script.wait(.seconds(60)) == ["close 1001"])
    }

    @Test func aPingIsAnswered() {
        var script = Script()
        #expect(script.after(.zero, .receivedPing(payload: Array("x".utf8))) == ["pong x"])
    }

    @Test func tooManyFramesCloseTheConnection() {
        var script = Script()
        script.live()
        let seen = (0..<200).flatMap { _ in script.after(.milliseconds(10), .receivedPing(payload: [])) }
        // A burst of 100 (the hello took one) and 20 a second meanwhile.
        #expect(seen.last == "close 1008")
        #expect((120...126).contains(seen.count))
    }

    @Test func noticesForASlowPeerWaitAndTheNewestOfAZoneIsKept() {
        var script = Script()
        script.live()
        #expect(script.after(.zero, .notice(notice("A", "1"))) == ["notice A 1"])
        #expect(script.after(.zero, .writabilityChanged(false)) == [])
        for event in [notice("A", "2"), notice("B", "1"), notice("A", "3")] {
            #expect(script.after(.zero, .notice(event)) == [])
        }
        #expect(script.after(.zero, .writabilityChanged(true)) == ["notice A 3", "notice B 1"])
    }

    @Test func noticesArrivingDuringTheCatchUpReplaceOlderOnes() {
        var script = Script()
        _ = script.after(.zero, .received(text: Self.hello))
        _ = script.after(.zero, .admitted(tokenLife: nil))
        #expect(script.after(.zero, .notice(notice("A", "9"))) == [])
        let missed = [notice("A", "8"), notice("B", "1")]
        let said = script.after(.zero, .caughtUp(ready: Self.ready, missed: missed))
        #expect(said == ["ready", "notice A 9", "notice B 1"])
    }

    @Test func aFullQueueCollapsesAndASlowReaderIsDisconnected() {
        var script = Script { $0.queuedNotices = 4 }
        script.live()
        _ = script.after(.zero, .writabilityChanged(false))
        for number in 0..<9 { _ = script.after(.zero, .notice(notice("Z\(number)", "1"))) }
        var patient = script
        #expect(patient.after(.seconds(14), .writabilityChanged(true)) == ["notice * -"])
        #expect(script.wait(.seconds(16)) == ["close 1013"])
    }

    @Test func theSizeOfTheQueueIsLimited() {
        var script = Script { $0.queuedBytes = 1000 }
        script.live()
        _ = script.after(.zero, .writabilityChanged(false))
        for number in 0..<20 { _ = script.after(.zero, .notice(notice("Z\(number)", "1"))) }
        #expect(script.after(.zero, .writabilityChanged(true)) == ["notice * -"])
    }

    @Test func aTokenIsRenewedBeforeItExpires() {
        var script = Script()
        script.live(tokenLife: .seconds(600))
        #expect(script.wait(.seconds(25)) == [])
        _ = script.after(.zero, .receivedPong)
        var seen: [String] = []
        for _ in 0..<52 {
            seen += script.wait(.seconds(10)).filter { $0 != "ping" }
            _ = script.after(.zero, .receivedPong)
        }
        #expect(seen == ["renew"])
        let token = RenewedToken(webAuthToken: "new", life: .seconds(600))
        #expect(script.after(.zero, .renewed(token)) == ["renewed new"])
    }

    @Test func withoutARenewalTheConnectionEndsWithItsToken() {
        var script = Script()
        script.live(tokenLife: .seconds(20))
        #expect(script.wait(.seconds(19)) == ["renew"])
        #expect(script.after(.zero, .renewed(nil)) == [])
        #expect(script.wait(.seconds(2)) == ["goodbye web auth token expired", "close 4450"])
    }

    @Test func aStoppingRelaySaysGoodbye() {
        var script = Script()
        script.live()
        #expect(script.after(.zero, .ended(.stopping)) == ["goodbye relay stopping", "close 1001"])
        #expect(script.after(.zero, .notice(notice("A", "1"))) == [])
    }
}
