import Sockets

/// A raw connection that sends what no decent client would, and takes note of all that comes back.
final class Link {
    private let socket: Socket
    private var buffer = ReceiveBuffer()
    private(set) var isClosed = false

    /// Reads give up after `patience` seconds without a byte.
    init(to endpoint: Endpoint, patience: Int = 2) throws {
        socket = try Socket.connect(to: endpoint, blocks: true)
        socket.limitReads(seconds: patience)
    }

    /// A peer that has already closed is no failure: that may be what is asked of it.
    func send(_ bytes: [UInt8]) {
        do { try socket.write(bytes) } catch { isClosed = true }
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    func finishWriting() { socket.finishWriting() }

    /// What has come and was not used yet.
    var unread: UnsafeRawBufferPointer { buffer.unread }

    func use(_ count: Int) { buffer.use(count) }

    /// Reads once; false when nothing came in time or the peer has closed.
    func readMore() -> Bool {
        switch buffer.fill(from: socket) {
        case .bytes: return true
        case .nothingYet: return false
        case .closed:
            isClosed = true
            return false
        }
    }

    /// Reads until the peer closes, falls silent, or `isEnough`.
    func read(until isEnough: (UnsafeRawBufferPointer) -> Bool = { _ in false }) {
        while !isEnough(unread), readMore() {}
    }
}

/// An answer's head and body, copied out of a link.
struct Answer {
    var status: Int
    var head: String
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    /// The value of a header field, if it is there.
    func field(_ name: String) -> String? {
        for line in head.split(separator: "\r\n").dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                return String(parts[1].drop { $0 == " " })
            }
        }
        return nil
    }
}

extension Link {
    /// The next answer, or `nil` if none comes whole.
    func answer(hasBody: Bool = true) -> Answer? {
        read { HTTPHead.length(in: $0) != nil }
        guard let headLength = HTTPHead.length(in: unread) else { return nil }
        let head = UnsafeRawBufferPointer(rebasing: unread[..<headLength])
        guard let status = HTTPHead.status(of: head) else { return nil }
        let length = hasBody ? HTTPHead.contentLength(of: head) ?? 0 : 0
        read { $0.count >= headLength + length }
        guard unread.count >= headLength + length else { return nil }
        let answer = Answer(
            status: status,
            head: String(decoding: unread[..<headLength], as: UTF8.self),
            body: Array(unread[headLength..<headLength + length])
        )
        use(headLength + length)
        return answer
    }
}
