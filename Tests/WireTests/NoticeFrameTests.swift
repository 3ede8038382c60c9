import Records
import Testing
import Wire

@Suite struct NoticeFrameTests {
    static let notice = Notice(
        kind: .database,
        container: "iCloud.com.example.notes",
        environment: .development,
        noticeID: "2b9f",
        user: UserID("_4d9e"),
        scope: .private,
        subscriptionID: "private-changes",
        zone: ZoneID("Notes", owner: UserID("_4d9e")),
        syncToken: "AQID"
    )

    @Test func aNoticeHasCloudKitsPayload() throws {
        let text = String(decoding: ServerFrame.notice(Self.notice).encoded, as: UTF8.self)
        #expect(
            text == #"{"notice":{"aps":{"content-available":1},"#
                + #""ck":{"ce":2,"cid":"iCloud.com.example.notes","nid":"2b9f","ckuserid":"_4d9e","#
                + #""met":{"dbs":2,"sid":"private-changes","zid":"Notes","zoid":"_4d9e"}},"syncToken":"AQID"}}"#
        )
    }

    @Test func aZoneSubscriptionsNoticeIsFet() throws {
        var notice = Self.notice
        notice.kind = .zone
        notice.environment = .production
        let text = String(decoding: ServerFrame.notice(notice).encoded, as: UTF8.self)
        #expect(text.contains(#""fet":{"dbs":2"#))
        #expect(text.contains(#""ce":1"#))
    }

    static var wholeDatabase: Notice {
        var notice = notice
        notice.zone = nil
        notice.syncToken = nil
        return notice
    }

    static let serverFrames: [ServerFrame] = [
        .notice(notice), .notice(wholeDatabase), .renewed(webAuthToken: "token\"x"),
        .goodbye(reason: "relay restarting", retryAfter: 2), .goodbye(reason: "late", retryAfter: 0.5),
        .goodbye(reason: "for good", retryAfter: nil),
        .ready(
            NoticeReady(userRecordName: "_4d9e", subscriptions: ["a", "b"], pingInterval: 30, relay: "zonecast 0.1.0")
        ),
    ]

    @Test(arguments: serverFrames) func serverFramesAreReadBack(_ frame: ServerFrame) throws {
        #expect(try ServerFrame(decoding: frame.encoded) == frame)
    }

    static let clientFrames: [ClientFrame] = [
        .hello(NoticeHello(deviceID: "D5B7")),
        .hello(
            NoticeHello(deviceID: "D", apiToken: "a", webAuthToken: "w", since: [.private: "AQ==", .shared: "Ag=="])
        ),
        .seen([.private: "AQ=="]),
        .ping,
    ]

    @Test("a ping and its pong have one empty member, so that a browser can send and recognise them")
    func pingAndPong() throws {
        #expect(String(decoding: ClientFrame.ping.encoded, as: UTF8.self) == #"{"ping":{}}"#)
        #expect(String(decoding: ServerFrame.pong.encoded, as: UTF8.self) == #"{"pong":{}}"#)
        #expect(try ServerFrame(decoding: Array(#"{"pong":{}}"#.utf8)) == .pong)
    }

    @Test(arguments: clientFrames) func clientFramesAreReadBack(_ frame: ClientFrame) throws {
        #expect(try ClientFrame(decoding: frame.encoded) == frame)
    }

    @Test func nullMeansThatNoTokenIsKnown() throws {
        let text =
            #"{ "hello": { "deviceID": "D", "ckAPIToken": null, "since": { "private": null, "shared": "t" }, "x": 1 } }"#
        let frame = try ClientFrame(decoding: Array(text.utf8))
        #expect(frame == .hello(NoticeHello(deviceID: "D", since: [.shared: "t"])))
    }

    @Test func unknownKindsAreNamed() throws {
        #expect(try ClientFrame(decoding: Array(#"{"wave":{}}"#.utf8)) == .unknown(kind: "wave"))
        #expect(try ServerFrame(decoding: Array(#"{"wave":[]}"#.utf8)) == .unknown(kind: "wave"))
    }

    static let broken = [
        "", "[]", "{}", "7", #"{"hello":{},"seen":{}}"#, #"{"hello":null}"#, #"{"hello":{}}"#,
        #"{"hello":{"deviceID":""}}"#, #"{"hello":{"deviceID":"a\nb"}}"#, #"{"hello":{"deviceID":"ü"}}"#,
        #"{"hello":{"deviceID":7}}"#, #"{"hello":{"deviceID":"D","since":[]}}"#, #"{"hello":{"deviceID":"D"}} x"#,
        #"{"hello":{"deviceID":"D","since":{"private":1}}}"#,
    ]

    @Test(arguments: broken) func invalidFramesAreRefused(_ text: String) {
        #expect(throws: JSONError.self) { try ClientFrame(decoding: Array(text.utf8)) }
    }
}
