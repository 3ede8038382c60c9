import Sockets

/// Reads a zone's feed page by page on one connection, and parses only the end of each page, for speed.
struct FeedReader {
    struct Fetch {
        var seconds = 0.0
        var bytes = 0
        /// 0 if records are not counted.
        var records = 0
        var token = ""
    }

    private let relay: Relay
    private let zone: String
    private let connection: HTTPConnection

    init(_ relay: Relay, zone: String) throws {
        self.relay = relay
        self.zone = zone
        connection = try HTTPConnection(to: relay.endpoint)
    }

    /// Reads the whole feed from its beginning.
    func readAll(counting: Bool, eachPage: (Int) -> Void = { _ in }) throws -> Fetch {
        var fetch = Fetch()
        var (token, page) = (String?.none, 0)
        let start = Monotonic.nanoseconds
        while true {
            let end = try connection.exchange(relay.changes(in: zone, since: token)) { reply in
                fetch.bytes += reply.body.count
                if counting { fetch.records += Self.count("\"recordChangeTag\"", in: reply.body) }
                return try PageEnd(reply)
            }
            (token, page) = (end.token, page + 1)
            eachPage(page)
            guard end.isMoreComing else { break }
        }
        fetch.seconds = Monotonic.seconds(since: start)
        fetch.token = token ?? ""
        return fetch
    }

    private static func count(_ text: StaticString, in bytes: UnsafeRawBufferPointer) -> Int {
        var (rest, count) = (bytes, 0)
        while let place = HTTPHead.position(of: text, in: rest) {
            count += 1
            rest = UnsafeRawBufferPointer(rebasing: rest[(place + text.utf8CodeUnitCount)...])
        }
        return count
    }
}

/// Returns a page's token and whether another page follows; both are outside of the records.
private struct PageEnd {
    var token: String
    var isMoreComing: Bool

    init(_ reply: HTTPReply) throws(LoadError) {
        // They follow the records if the server streams, and precede them otherwise.
        let tail = UnsafeRawBufferPointer(rebasing: reply.body.suffix(400))
        guard
            let token = Self.text(after: "\"syncToken\":\"", in: tail)
                ?? Self.text(after: "\"syncToken\":\"", in: reply.body)
        else { throw .peer("A page without syncToken: \(reply.text.prefix(500))") }
        self.token = token
        isMoreComing =
            HTTPHead.position(of: "\"moreComing\":true", in: tail) != nil
            || HTTPHead.position(of: "\"moreComing\":false", in: tail) == nil
                && HTTPHead.position(of: "\"moreComing\":true", in: reply.body) != nil
    }

    private static func text(after mark: StaticString, in bytes: UnsafeRawBufferPointer) -> String? {
        guard let place = HTTPHead.position(of: mark, in: bytes) else { return nil }
        let text = bytes[(place + mark.utf8CodeUnitCount)...].prefix { $0 != UInt8(ascii: "\"") }
        return String(decoding: text, as: UTF8.self).replacing("\\/", with: "/")
    }
}

/// Reads the feed of the bare server.
struct BareFeedReader {
    private let connection: HTTPConnection
    private let endpoint: Endpoint

    init(_ server: BareProcess) throws {
        endpoint = server.requests
        connection = try HTTPConnection(to: endpoint)
    }

    /// Reads the whole feed in pages of 200 and returns the seconds it took.
    func readAll() throws -> Double {
        let start = Monotonic.nanoseconds
        var after = 0
        while true {
            let request = HTTPRequest("GET", "/feed/\(after)/limit/200", to: endpoint)
            let next = try connection.exchange(request.bytes) { reply in
                let tail = UnsafeRawBufferPointer(rebasing: reply.body.suffix(40))
                guard let next = HTTPHead.number(after: "\"syncToken\":\"", in: tail) else {
                    throw LoadError.peer("A bare page without end: \(reply.text.suffix(100))")
                }
                return next
            }
            if next == after { return Monotonic.seconds(since: start) }
            after = next
        }
    }
}

extension Relay {
    /// Creates the zone if necessary, and `count` new records in it.
    func fill(_ zone: String, with count: Int, numberingFrom first: Int = 1) throws {
        try makeZones([zone])
        let connection = try HTTPConnection(to: endpoint)
        for start in stride(from: 0, to: count, by: 200) {
            var request = create(min(200, count - start), in: zone)
            request.number(from: first + start)
            try connection.exchange(request.bytes) { try $0.mustBeSuccess() }
        }
    }
}
