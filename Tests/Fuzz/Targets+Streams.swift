import NIOCore
import RelayAPI
import RelayServer
import Wire

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
