import Floors
import Foundation
import Sockets

/// Reading change feeds.
enum ReadRows {
    /// A first fetch in pages of 200, beside a bare server that reads as many bytes from SQLite.
    static func firstFetch(_ bench: inout Bench) throws {
        let count = 100_000
        let relay = try bench.startRelay()
        try relay.fill("notes", with: count)
        let reader = try FeedReader(relay, zone: "notes")
        let counted = try reader.readAll(counting: true)
        guard counted.records == count else {
            throw LoadError.peer("The feed holds \(counted.records) records instead of \(count).")
        }
        let feed = bench.path("feed.sqlite")
        try BareFeed.make(path: feed, count: count, bodySize: counted.bytes / count)
        let bare = try bench.startBareServer(feed: feed)
        let bareReader = try BareFeedReader(bare)
        _ = try bareReader.readAll()
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            Double(count) / (try reader.readAll(counting: false).seconds)
        } floor: {
            Double(count) / (try bareReader.readAll())
        }
        bench.report.add(
            Finding(
                "fetch",
                "first fetch of 100,000 records in pages of 200, one connection",
                unit: "records/s",
                paired,
                against: "SQLite's rows over a bare socket",
                target: .ratioAtLeast(0.9),
                note: "\(counted.bytes / count) bytes a record in the answer"
            )
        )
    }

    /// Fetching 100 changes since a token.
    static func changes(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.fill("notes", with: 20_000)
        let reader = try FeedReader(relay, zone: "notes")
        let token = try reader.readAll(counting: false).token
        try relay.fill("notes", with: 100, numberingFrom: 1 << 40)
        let (relayLink, ask) = (try HTTPConnection(to: relay.endpoint), relay.changes(in: "notes", since: token))
        let pageSize = try relayLink.exchange(ask) { $0.body.count }
        let feed = bench.path("feed-changes.sqlite")
        try BareFeed.make(path: feed, count: 20_100, bodySize: pageSize / 100)
        let bare = try bench.startBareServer(feed: feed)
        let bareLink = try HTTPConnection(to: bare.requests)
        let askBare = HTTPRequest("GET", "/feed/20000/limit/100", to: bare.requests).bytes
        let paired = try Paired.measure(rounds: bench.scale(11, quick: 5)) {
            try Self.medianMilliseconds(of: ask, on: relayLink, times: 500)
        } floor: {
            try Self.medianMilliseconds(of: askBare, on: bareLink, times: 500)
        }
        bench.report.add(
            Finding(
                "changes",
                "100 changes since a token, median",
                unit: "ms",
                paired,
                against: "SQLite's rows over a bare socket",
                target: .atMost(0.07)
            )
        )
    }

    private static func medianMilliseconds(
        of request: [UInt8],
        on connection: HTTPConnection,
        times: Int
    ) throws -> Double {
        var delays: [Double] = []
        for _ in 0..<times {
            let start = Monotonic.nanoseconds
            try connection.exchange(request) { try $0.mustBeSuccess() }
            delays.append(Double(Monotonic.nanoseconds - start) / 1e6)
        }
        return delays.median
    }

    /// The relay's memory while it sends 150,000 records.
    static func flatMemory(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.fill("notes", with: 150_000)
        let reader = try FeedReader(relay, zone: "notes")
        let cold = relay.meter.residentBytes
        // The caches fill up to their limits once; the memory that a fetch needs beyond them must not grow.
        _ = try reader.readAll(counting: false)
        let before = relay.meter.residentBytes
        var most = before
        let fetch = try reader.readAll(counting: true) { page in
            if page.isMultiple(of: 10) { most = max(most, relay.meter.residentBytes) }
        }
        bench.report.add(
            Finding(
                "fetch-memory",
                "growth of the relay's memory while \(fetch.records) records are fetched",
                unit: "MB",
                relay: Double(most - before) / 1e6,
                target: .atMost(8),
                note:
                    "\(Double(fetch.bytes) / 1e6) MB went out; \(Double(before) / 1e6) MB were held before, \(Double(before - cold) / 1e6) MB of them since an earlier fetch filled the caches"
            )
        )
    }
}
