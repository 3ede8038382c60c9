import Crypto
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayGateways
import Wire

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
