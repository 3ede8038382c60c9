import Crypto
import Foundation
import HTTPTypes
import NIOCore
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem
import StoreTesting
import Synchronization
import Wire

/// Whole requests, from their bytes to their answers.
extension FuzzTarget {
    static let requests: [FuzzTarget] = [bodies, heads]

    /// The path of an operation on the first line, then its body.
    private static let bodies = FuzzTarget(
        "bodies",
        seeds: [
            "private/records/modify\n"
                + #"{"zoneID":{"zoneName":"Notes"},"atomic":true,"operations":[{"operationType":"update","record":{"recordName":"r1","recordType":"Note","recordChangeTag":"1","fields":{"title":{"value":"x","type":"STRING"},"n":{"value":7}},"parent":{"recordName":"r2"}},"desiredKeys":["title"]}]}"#,
            "private/records/modify\n"
                + #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","publicPermission":"READ_ONLY","participants":[{"type":"USER","permission":"READ_WRITE","acceptanceStatus":"INVITED","userIdentity":{"lookupInfo":{"emailAddress":"b@example.org"}}}],"fields":{}}}]}"#,
            "private/records/lookup\n"
                + #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"r1"}],"desiredKeys":["title"],"numbersAsStrings":true}"#,
            "public/records/query\n"
                + #"{"resultsLimit":2,"query":{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"GREATER_THAN","fieldValue":{"value":1}}],"sortBy":[{"fieldName":"title","ascending":false}]}}"#,
            "private/changes/zone\n"
                + #"{"zones":[{"zoneID":{"zoneName":"Notes"},"resultsLimit":2,"syncToken":"AAAA","reverse":false,"desiredKeys":["n"],"desiredRecordTypes":["Note"]}]}"#,
            "private/changes/database\n" + #"{"syncToken":"AAAA","resultsLimit":3}"#,
            "private/zones/modify\n"
                + #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"New","ownerRecordName":"_u"}}}]}"#,
            "private/zones/lookup\n" + #"{"zones":[{"zoneName":"Notes"}]}"#,
            "private/subscriptions/modify\n"
                + #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"query","query":{"recordType":"Note","filterBy":[]},"firesOn":["create"],"firesOnce":true,"zoneID":{"zoneName":"Notes"},"notificationInfo":{"alertBody":"b","shouldBadge":true,"alertLocalizationArgs":["title"]}}}]}"#,
            "private/records/move\n"
                + #"{"zoneID":{"zoneName":"Notes"},"destinationZoneID":{"zoneName":"Box"},"records":[{"recordName":"r1","recordChangeTag":"1"}],"createDestination":true}"#,
            "public/users/discover\n"
                + #"{"lookupInfos":[{"emailAddress":"b@example.org"},{"phoneNumber":"+1"},{"userRecordName":"_x"}]}"#,
            "public/records/resolve\n"
                + #"{"shortGUIDs":[{"value":"abc","shouldFetchRootRecord":true,"rootRecordDesiredKeys":["title"]}]}"#,
            "private/assets/upload\n"
                + #"{"zoneID":{"zoneName":"Notes"},"tokens":[{"recordType":"Note","fieldName":"file","recordName":"r1"}]}"#,
            "private/assets/rereference\n" + #"{"zoneID":{"zoneName":"Notes"},"tokens":[]}"#,
        ],
        words: [
            #""operationType":"forceReplace""#, #""operationType":"delete""#, #""type":"REFERENCE""#, "forceDelete",
            #""value":{"recordName":"r1","action":"DELETE_SELF"}"#, #""type":"LOCATION""#, #""type":"STRING_LIST""#,
            #""zoneName":"_defaultZone""#, #""recordName":"r2""#, "private", "public", "shared", "records", "zones",
            #""continuationMarker":"e30=""#, #""syncToken":"""#, #""resultsLimit":0"#, #""zoneWide":true"#,
        ]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let line = input.prefix { $0 != UInt8(ascii: "\n") }
            let answer = await relay.ask(String(decoding: line, as: UTF8.self), Array(input.dropFirst(line.count + 1)))
            var finding = FuzzRelay.finding(answer)
            let operation = String(decoding: line, as: UTF8.self)
            let isKnown = operation.utf8.allSatisfy { $0 == UInt8(ascii: "/") || (0x61...0x7A).contains($0) }
            finding.outcome = (isKnown && answer.status == .ok ? operation : "odd") + " " + finding.outcome
            return finding
        }
    }

    /// Paths, query strings and headers, with a small body.
    private static let heads = FuzzTarget(
        "heads",
        seeds: [
            "POST\n/database/1/iCloud.org.example.fuzz/development/private/zones/list\nckAPIToken=x&ckWebAuthToken=dev-alice",
            "GET\n/database/1/iCloud.org.example.fuzz/development/public/users/caller\nckAPIToken=x&ckWebAuthToken=AAECAwQ%3D",
            "GET\n/share/abcdef#title\n",
            "GET\n/signin\ncontainer=iCloud.org.example.fuzz&environment=development&token=x",
            "POST\n/device/1/iCloud.org.example.fuzz/development/tokens/create\nckAPIToken=x",
            "GET\n/assets/download/AAAA/BBBB\n", "POST\n/assets/upload/AAAA\n", "GET\n/openapi.json\n",
            "GET\n/account\n",
            "OPTIONS\n/database/1/iCloud.org.example.fuzz/production/shared/records/query\n",
        ],
        words: [
            "/database/1/", "development", "%2e%2e", "%00", "%ff", "..", "//", "?", "&", "=", "ckWebAuthToken=", "+",
        ]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let lines = String(decoding: input, as: UTF8.self).split(
                separator: "\n",
                maxSplits: 2,
                omittingEmptySubsequences: false
            )
            guard lines.count == 3, let method = HTTPRequest.Method(String(lines[0])) else { return Finding("no head") }
            let request = APIRequest(
                method: method,
                path: String(lines[1]),
                query: lines[2].isEmpty ? nil : String(lines[2]),
                headers: [
                    .origin: "https://example.org",
                    .range: String(lines[2].prefix(40).filter { $0.isASCII && $0 >= " " }),
                ],
                body: Array("{}".utf8)
            )
            return FuzzRelay.finding(await relay.send(request))
        }
    }
}

/// Stream parsers: the result must not depend on how the bytes are split.
extension FuzzTarget {
    static let streams: [FuzzTarget] = [socketFrames, clientFrame, serverFrame, multipart]

    private static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [first, 0x80 | UInt8(payload.count), 0, 0, 0, 0] + payload
    }

    private static let socketFrames = FuzzTarget(
        "socket-frames",
        seeds: [],
        bytes: [
            frame(0x81, Array("hi é".utf8)) + frame(0x89, [1]) + frame(0x88, [3, 0xE8]),
            frame(0x01, [0xE2]) + frame(0x8A, []) + frame(0x80, [0x82, 0xAC]),
            [0x82, 0xFE, 0x00, 0x7E, 1, 2, 3, 4] + [UInt8](repeating: 7, count: 126),
            [0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 9, 9, 9, 9],
        ],
        words: ["\u{1}\u{0}", "\u{0}\u{0}\u{0}\u{0}"]
    ) { input in
        let whole = events(input, step: max(1, input.count))
        let single = events(input, step: 1)
        let thirds = events(input, step: 3)
        guard whole == single, whole == thirds else {
            return Finding("differs", objection: "the result depends on the split: \(whole) and \(single)")
        }
        if case .failed(let fault) = whole.last { return Finding("failed \(fault.code) \(min(whole.count, 4))") }
        return Finding("read \(min(whole.count, 6))")
    }

    private static func events(_ bytes: [UInt8], step: Int) -> [FrameReader.Event] {
        var reader = FrameReader(limit: 4_096)
        var events: [FrameReader.Event] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            var piece = ByteBuffer(bytes: rest.prefix(step))
            rest = rest.dropFirst(step)
            while let event = reader.next(in: &piece) { events.append(event) }
        }
        return events
    }

    /// Client frames, in a notice session.
    private static let clientFrame = FuzzTarget(
        "client-frame",
        seeds: [
            #"{"hello":{"deviceID":"d","since":{"private":"AA"},"ckAPIToken":"x","ckWebAuthToken":"y"}}"#,
            #"{"seen":{"private":"AA","shared":"BB"}}"#, #"{"wave":{}}"#,
        ],
        words: [#""hello""#, #""since""#, #""private""#, #""public""#, #""subscriptions":[]"#]
    ) { input in
        var session = NoticeSession(limits: NoticeLimits(), at: .zero)
        let first = session.handle(.received(text: input), at: .seconds(1))
        let second = session.handle(.received(text: input), at: .seconds(2))
        guard let frame = try? ClientFrame(decoding: input) else {
            let isClosed = first.contains { if case .close = $0 { true } else { false } }
            return Finding("refused", objection: isClosed ? nil : "a bad first frame was taken")
        }
        let again = try? ClientFrame(decoding: frame.encoded)
        return Finding("taken \(second.count)", objection: again == frame ? nil : "the re-encoded frame differs")
    }

    private static let serverFrame = FuzzTarget(
        "server-frame",
        seeds: [
            #"{"ready":{"userRecordName":"_u","subscriptions":["a"],"pingInterval":30,"relay":"r 1"}}"#,
            #"{"notice":{"ck":{"nid":"n","cid":"c","fet":{"zid":"Z","zoid":"_u","sid":"s","dbs":2,"nt":2}},"syncToken":"AA"}}"#,
            #"{"renewed":{"ckWebAuthToken":"t"}}"#, #"{"goodbye":{"reason":"stopping","retryAfter":1.5}}"#,
        ],
        words: [#""notice""#, #""aps""#, #""qry""#, #""fo":1"#, #""retryAfter""#, "1e400"]
    ) { input in
        guard let frame = try? ServerFrame(decoding: input) else { return Finding("refused") }
        let again = try? ServerFrame(decoding: frame.encoded)
        return Finding("taken", objection: again == frame ? nil : "the re-encoded frame differs")
    }

    private static let multipart = FuzzTarget(
        "multipart",
        seeds: [
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: text/plain\r\n\r\nthe content\r\n--B--\r\n",
            "preamble\r\n--B\r\n\r\n\r\n--B\r\nX: y\r\n\r\nmore\r\n--B--", "--B--", "--B \r\n\r\nx\r\n--Bx\r\n--B\r\n",
        ],
        words: ["\r\n--B", "--B", "\r\n\r\n", "--", "\r\n"]
    ) { input in
        let whole = content(input, step: max(1, input.count))
        for step in [1, 2, 5] where content(input, step: step) != whole {
            return Finding("differs", objection: "pieces of \(step) bytes give another content")
        }
        guard let whole else { return Finding("refused") }
        return Finding("content \(whole.isComplete) \(whole.bytes.isEmpty)")
    }

    private struct Content: Equatable {
        var bytes: [UInt8]
        var isComplete: Bool
    }

    private static func content(_ bytes: [UInt8], step: Int) -> Content? {
        guard var body = MultipartBody(contentType: "multipart/form-data; boundary=B") else { return nil }
        var content: [UInt8] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            guard let part = body.take(Array(rest.prefix(step))) else { return nil }
            rest = rest.dropFirst(step)
            content += part
        }
        return Content(bytes: content, isComplete: body.isComplete)
    }
}

/// Headers and addresses: byte ranges, multipart boundaries, push targets and tokens in URLs.
extension FuzzTarget {
    static let addresses: [FuzzTarget] = [range, boundary, pushTarget, tokensInAddresses]

    /// A byte range of a file: the file size on the first line, then the Range header.
    private static let range = FuzzTarget(
        "range",
        seeds: [
            "1000\nbytes=0-99", "1000\nbytes=-5", "1000\nbytes=990-", "0\nbytes=0-0", "10\nbytes=10-",
            "7\nbytes=3-3,5-6",
            "5\nBYTES=2-999999999999999999", "9223372036854775807\nbytes=1-", "3\nitems=0-1", "4\nbytes=2-1",
        ],
        words: ["bytes=", "-", ",", "999999999999999999", "18446744073709551616", " ", "0"]
    ) { input in
        let lines = String(decoding: input, as: UTF8.self).split(separator: "\n", maxSplits: 1)
        guard lines.count == 2, let size = Int64(lines[0]), size >= 0 else { return Finding("no size") }
        switch ByteRange(String(lines[1]), size: size) {
        case .whole: return Finding("whole")
        case .none: return Finding("none")
        case .part(let offset, let length):
            let isInside = offset >= 0 && length > 0 && offset < size && length <= size - offset
            return Finding(
                "part \(offset == 0) \(offset + length == size)",
                objection: isInside ? nil : "\(length) bytes from \(offset) of a file of \(size)"
            )
        }
    }

    /// A multipart body whose boundary is untrusted too: the content type on the first line, then the body.
    private static let boundary = FuzzTarget(
        "boundary",
        seeds: [
            "multipart/form-data; boundary=B\n--B\r\n\r\ncontent\r\n--B--\r\n",
            "multipart/form-data; charset=x; boundary=\"a b\"\n--a b\r\nX: y\r\n\r\n\r\n--a b--",
            "multipart/form-data; boundary=\n--\r\n\r\nx\r\n----",
            "Multipart/Form-Data;boundary=--\n----\r\n\r\n-\r\n------",
            "multipart/form-data; boundary=" + String(repeating: "b", count: 70) + "\n--b",
        ],
        words: ["boundary=", "\"", ";", "\r\n--", "--", "\r\n\r\n", "multipart/form-data"]
    ) { input in
        let line = input.prefix { $0 != UInt8(ascii: "\n") }
        let (type, body) = (String(decoding: line, as: UTF8.self), Array(input.dropFirst(line.count + 1)))
        guard MultipartBody(contentType: type) != nil else { return Finding("no parts") }
        let whole = content(of: body, as: type, step: max(1, body.count))
        for step in [1, 3] where content(of: body, as: type, step: step) != whole {
            return Finding("differs", objection: "pieces of \(step) bytes give another content")
        }
        guard let whole else { return Finding("refused") }
        let isLonger = whole.count > body.count
        return Finding("content \(min(whole.count, 3))", objection: isLonger ? "more came out than was there" : nil)
    }

    /// The content of a multipart body; `nil` if it was refused.
    private static func content(of bytes: [UInt8], as type: String, step: Int) -> [UInt8]? {
        guard var body = MultipartBody(contentType: type) else { return nil }
        var content: [UInt8] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            guard let part = body.take(Array(rest.prefix(step))) else { return nil }
            rest = rest.dropFirst(step)
            content += part
        }
        return content
    }

    /// A device's push target and its encryption keys.
    private static let pushTarget = FuzzTarget(
        "push-target",
        seeds: [
            #"{"webPush":{"endpoint":"https://push.example.org/a/b","keys":{"p256dh":"\#(point)","auth":"AAECAwQFBgcICQoLDA0ODw"}}}"#,
            #"{"webPush":{"endpoint":"https://127.0.0.1/x","keys":{"p256dh":"BAAA","auth":"AA=="}}}"#,
            #"{"apns":{"deviceToken":"\#(String(repeating: "ab", count: 32))","topic":"org.example.notes","environment":"production"}}"#,
            #"{"ntfy":{"topicURL":"https://ntfy.example.org/topic"}}"#, #"{"fcm":{"token":"a:b"}}"#,
        ],
        words: [
            #""webPush""#, #""endpoint""#, #""p256dh""#, #""auth""#, "https://", "http://", "[::1]", "user@", "%00",
            String(repeating: "B", count: 87), #""apns""#, #""ntfy""#, #""fcm""#,
        ]
    ) {
        let relay = try await FuzzRelay(pushes: true)
        let ours = P256.KeyAgreement.PrivateKey()
        return { input in
            var finding = FuzzRelay.finding(await relay.ask("public/push/register", input))
            for case .webPush(_, let key, let secret) in relay.registered() {
                // The relay will use the registered keys some day. Every key must give either a message or an error.
                let sent = try? WebPushMessage.encrypt(
                    [1],
                    key: key,
                    secret: secret,
                    ours: ours,
                    salt: Array(repeating: 0, count: 16)
                )
                finding.outcome += sent == nil ? " no key" : " sent"
            }
            return finding
        }
    }

    private static let point = Base64.encode(Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation))
        .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")

    /// Tokens in URLs: those of a device's long poll, of share links and of files.
    private static let tokensInAddresses = FuzzTarget(
        "address-tokens",
        seeds: [
            "/device/1/iCloud.org.example.fuzz/development/webcourier\ntoken=AAECAwQF&wait=0",
            "/device/1/iCloud.org.example.fuzz/development/webcourier\ntoken=&wait=1e9",
            "/asset/1/download/AAECAwQFBgc\n", "/asset/1/upload/AAECAwQFBgc%2F\nx=1",
            "/share/0000000000000000000000000000000000000000000\n", "/share/a%2Fb#t\n",
            "/database/1/iCloud.org.example.fuzz/development/private/zones/list\nckWebAuthToken=AQAAAAAA%2B%2F%3D",
        ],
        words: ["token=", "ckWebAuthToken=", "%2B", "%00", "wait=0", "//", "..", "AAAA", "-_", "=="]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let lines = String(decoding: input, as: UTF8.self).split(
                separator: "\n",
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            guard lines.count == 2 else { return Finding("no address") }
            // Long polls do not wait in this test.
            let query = lines[1].contains("wait") && !lines[1].contains("wait=0") ? "wait=0" : String(lines[1])
            let answer = await relay.send(APIRequest(method: .get, path: String(lines[0]), query: query))
            let finding = FuzzRelay.finding(answer)
            guard answer.status.code == 200, answer.body.isEmpty || answer.file != nil else { return finding }
            return Finding(finding.outcome, objection: "a file was given for \(lines[0])")
        }
    }
}

/// The operators' console, with requests by operators and by unauthenticated clients.
extension FuzzTarget {
    static let consoles: [FuzzTarget] = [console]

    /// The first line holds the caller (`+` an operator, `-` unauthenticated), the method and the name; the second line
    /// the query; then the body.
    private static let console = FuzzTarget(
        "console",
        seeds: [
            "+POST session\n\n{\"name\":\"ada@example.org\",\"password\":\"correct horse\"}",
            "+GET session\n\n", "-GET overview\n\n", "+GET overview\n\n", "+GET users\nq=a&after=1\n",
            "+POST users/quota\n\n{\"user\":\"_a\",\"bytes\":1e30}",
            "+POST tokens/add\n\n{\"name\":\"t\",\"origins\":[\"*\"]}",
            "+POST schema/import\n\n{\"text\":\"DEFINE SCHEMA RECORD TYPE Note ( a STRING );\"}",
            "+POST schema/edit\n\n{\"type\":\"Note\",\"fields\":[{\"name\":\"a\",\"type\":\"STRING\"}]}",
            "+POST schema/try\n\n{\"type\":\"Note\",\"filter\":\"a == 'b'\"}", "+GET schema/diff\n\n",
            "+GET zones\nowner=_x\n",
            "+POST changes/since\n\n{\"token\":\"AAAA\",\"zone\":\"Notes\"}",
            "+POST zones/delete\n\n{\"zone\":\"Notes\"}",
            "+POST wire/records/query\n\n{\"query\":{\"recordType\":\"Note\"}}", "+GET logs\nlines=10&level=error\n",
            "+POST backups/schedule\n\n{\"every\":3600,\"keep\":3,\"folder\":\"/nowhere\"}", "+GET audit\nbefore=1\n",
            "+POST devices/notice\n\n{\"device\":\"d\"}",
            "-POST setup\n\n{\"code\":\"x\",\"name\":\"y\",\"password\":\"z\"}",
            "+POST operators/remove\n\n{\"name\":\"eve@example.org\"}", "+GET telemetry\nminutes=5\n",
        ],
        words: [
            "environment=production", "container=", "\"confirm\":true", "null", "-1", "1e400", "\"\\u0000\"", "../",
            "%2e%2e/",
            "users/one", "users/sign-out", "keys/revoke", "schema/promote", "quotas", "subscriptions", "_a",
        ]
    ) {
        let world = try await FuzzConsole()
        return { input in await world.finding(input) }
    }
}

/// A console of an in-memory relay with one operator.
private final class FuzzConsole: Sendable {
    private let relay: Relay
    private let signIn: (cookie: String, token: String)

    private struct NoCookie: Error {}

    init() async throws {
        let time = TimeSource(now: TimeSource.system.now, uptime: { .zero })
        let accounts = try TestStore.current.makeHome().accounts(time: time)
        let numbers = Mutex(UInt64(7))
        let stores = TestStore.current.makeHome().stores(
            TestStoreOptions(draw: {
                numbers.withLock {
                    $0 &+= 0x9E37_79B9_7F4A_7C15
                    return $0
                }
            })
        )
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        let hub = NoticeHub(relayName: "fuzz", noticeID: { "n" })
        relay = Relay(
            authenticator: try Authenticator(directory: accounts, settings: settings, time: time, random: .system),
            stores: stores,
            hub: hub,
            time: time,
            random: .system
        )
        // The console must not write anything, so the data folder does not exist.
        let nowhere = "/dev/null/zonecast"
        let parts = ConsoleParts(
            home: TestStore.current.unusableHome(),
            accounts: accounts,
            stores: stores,
            relay: relay,
            hub: hub,
            metrics: RelayMetrics(),
            telemetry: Telemetry(),
            requests: RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: time.now),
            facts: ConsoleFacts(
                version: "0",
                isDev: true,
                isSecure: false,
                publicURL: nil,
                data: nowhere,
                started: 0,
                limits: Limits(),
                settings: []
            ),
            time: time
        )
        relay.router.add(Console(parts).entries)
        let code = try accounts.makeOperatorLink()
        let body = #"{"code":"\#(code)","name":"ada@example.org","password":"correct horse"}"#
        let answer = await relay.respond(to: Self.request(.post, "setup", "", Array(body.utf8), nil))
        guard let set = answer.headers[.setCookie]?.split(separator: ";").first else { throw NoCookie() }
        struct Welcome: Decodable { var token: String }
        let welcome = try JSONDecoder().decode(Welcome.self, from: Data(answer.body))
        signIn = (String(set), welcome.token)
    }

    private static func request(
        _ method: HTTPRequest.Method,
        _ name: String,
        _ query: String,
        _ body: [UInt8],
        _ signIn: (cookie: String, token: String)?
    ) -> APIRequest {
        var headers: HTTPFields = [:]
        if let own = HTTPField.Name("X-Zonecast-Console") { headers[own] = signIn?.token ?? "1" }
        headers[.cookie] = signIn?.cookie
        let home = "container=\(FuzzRelay.container)&environment=development"
        return APIRequest(
            method: method,
            path: "/console/api/\(name)",
            query: query.contains("environment=") ? query : "\(home)&\(query)",
            headers: headers,
            body: body
        )
    }

    func finding(_ input: [UInt8]) async -> Finding {
        let lines = input.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count == 3, let caller = lines[0].first else { return Finding("no request") }
        let words = String(decoding: lines[0].dropFirst(), as: UTF8.self).split(separator: " ", maxSplits: 1)
        guard words.count == 2, let method = HTTPRequest.Method(String(words[0])) else { return Finding("no method") }
        let isSignedIn = caller == UInt8(ascii: "+")
        let request = Self.request(
            method,
            String(words[1]),
            String(decoding: lines[1], as: UTF8.self),
            Array(lines[2]),
            isSignedIn ? signIn : nil
        )
        let answer = await relay.respond(to: request)
        let outcome = "\(isSignedIn) \(words[1].prefix(20)) \(answer.status.code)"
        guard answer.status.code != 500 else {
            return Finding(outcome, objection: "500: \(String(decoding: answer.body, as: UTF8.self))")
        }
        let isSignIn = ["session", "setup", "password"].contains(String(words[1]))
        if !isSignedIn, !isSignIn, answer.status.code == 200 {
            return Finding(outcome, objection: "an unauthenticated client was served \(words[1])")
        }
        guard answer.headers[.contentType]?.hasPrefix("application/json") ?? false, !answer.body.isEmpty else {
            return Finding(outcome)
        }
        let isJSON = (try? JSONSerialization.jsonObject(with: Data(answer.body), options: .fragmentsAllowed)) != nil
        return Finding(outcome, objection: isJSON ? nil : "the answer is not JSON")
    }
}
