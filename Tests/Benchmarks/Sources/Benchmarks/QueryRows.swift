import Floors
import Sockets

/// Queries that find a few records among many of one type, all in one zone.
enum QueryRows {
    /// The cost of a selective query among 10,000 and among 1,000,000 records, beside a lookup in an index of SQLite.
    static func selective(_ bench: inout Bench) throws {
        let (few, many) = (bench.scale(10_000, quick: 2_000), bench.scale(1_000_000, quick: 50_000))
        let relay = try bench.startRelay()
        let link = try HTTPConnection(to: relay.endpoint)
        try relay.makeZones(["notes"])
        try relay.addNotes(from: 0, to: few)
        var costs: [String: [Double]] = [:]
        for count in [few, many] {
            if count == many {
                let start = Monotonic.nanoseconds
                try relay.addNotes(from: few, to: many)
                bench.report.log("\(many - few) records written in \(Monotonic.seconds(since: start)) s, indexes kept")
            }
            for kind in Kind.allCases {
                // The first query on a field makes its index.
                try link.ask(relay.requests(kind, among: count, times: 1))
                costs[kind.rawValue, default: []].append(
                    try cost(relay.requests(kind, among: count, times: bench.scale(3_000, quick: 500)), relay, link)
                )
            }
        }
        let floor = try BareSelect(path: bench.path("select.sqlite"), count: many)
        let floorCost = try floor.microseconds(times: bench.scale(20_000, quick: 2_000))
        for kind in Kind.allCases {
            guard let cost = costs[kind.rawValue], cost.count == 2 else { continue }
            bench.report.add(
                Finding(
                    "query",
                    "relay CPU of a request: \(kind.rawValue), among \(many) records",
                    unit: "µs",
                    relay: cost[1],
                    floor: .init(name: "SQLite's indexed row alone", value: floorCost, ratio: cost[1] / floorCost),
                    target: .atMost(1_000),
                    note: "among \(few) records it took \(Int(cost[0])) µs"
                )
            )
            bench.report.add(
                Finding(
                    "query",
                    "growth of that cost while the records grew \(many / few)-fold",
                    unit: "times",
                    relay: cost[1] / cost[0],
                    target: .atMost(1.5)
                )
            )
        }
        let start = Monotonic.nanoseconds
        try link.ask([relay.query(#"{"fieldName":"code","comparator":"EQUALS","fieldValue":{"value":"x"}}"#)])
        bench.report.add(
            Finding(
                "query",
                "first query on a field, which makes its index over \(many) records",
                unit: "s",
                relay: Monotonic.seconds(since: start)
            )
        )
    }

    /// The relay's CPU time per request in microseconds, the minimum of three rounds.
    private static func cost(_ requests: [[UInt8]], _ relay: Relay, _ link: HTTPConnection) throws -> Double {
        try (0..<3).map { _ in
            let start = relay.meter.cpuSeconds
            try link.ask(requests)
            return (relay.meter.cpuSeconds - start) / Double(requests.count) * 1e6
        }.min() ?? 0
    }

    enum Kind: String, CaseIterable {
        case equality = "one value of a field"
        case range = "10 of a range by another field, with a filter that all match"
        case words = "two words, one of them in every record"
        case page = "the first 10 of all in a field's order"
    }
}

extension Relay {
    /// Adds records with four different texts: name, serial, one word of the text, and code.
    fileprivate static let numbersEach = 4

    fileprivate func addNotes(from first: Int, to last: Int) throws {
        let mark = NumberedRequest.mark
        let operation = """
            {"operationType":"create","record":{"recordName":"record-\(mark)","recordType":"Note","fields":{\
            "serial":{"value":"\(mark)","type":"STRING"},"text":{"value":"Bread \(mark) and milk","type":"STRING"},\
            "code":{"value":"\(mark)","type":"STRING"},"done":{"value":0,"type":"INT64"}}}}
            """
        let connection = try HTTPConnection(to: endpoint)
        for start in stride(from: first, to: last, by: 200) {
            let operations = Array(repeating: operation, count: min(200, last - start)).joined(separator: ",")
            var request = NumberedRequest(
                call("records/modify", #"{"zoneID":{"zoneName":"notes"},"operations":[\#(operations)]}"#)
            )
            request.number(from: start * Self.numbersEach)
            try connection.exchange(request.bytes) { try $0.mustBeSuccess() }
        }
    }

    fileprivate func query(_ filters: String, sort: String = "") -> [UInt8] {
        let query = #"{"recordType":"Note","filterBy":[\#(filters)],"sortBy":[\#(sort)]}"#
        return call("records/query", #"{"zoneID":{"zoneName":"notes"},"resultsLimit":10,"query":\#(query)}"#).bytes
    }

    fileprivate func requests(_ kind: QueryRows.Kind, among count: Int, times: Int) -> [[UInt8]] {
        (0..<times).map { turn in
            // Spread over the whole zone, at other positions each time.
            let record = (turn &* 7_919_113) % (count - 10)
            let serial = Self.hex(record * Self.numbersEach + 1)
            switch kind {
            case .equality:
                return query(#"{"fieldName":"serial","comparator":"EQUALS","fieldValue":{"value":"\#(serial)"}}"#)
            case .range:
                let end = Self.hex((record + 10) * Self.numbersEach + 1)
                return query(
                    """
                    {"fieldName":"done","comparator":"EQUALS","fieldValue":{"value":0}},\
                    {"fieldName":"serial","comparator":"GREATER_THAN_OR_EQUALS","fieldValue":{"value":"\(serial)"}},\
                    {"fieldName":"serial","comparator":"LESS_THAN","fieldValue":{"value":"\(end)"}}
                    """,
                    sort: #"{"fieldName":"text","ascending":false}"#
                )
            case .words:
                let word = Self.hex(record * Self.numbersEach + 2)
                let value = #"{"value":"milk \#(word)"}"#
                return query(#"{"fieldName":"text","comparator":"CONTAINS_ALL_TOKENS","fieldValue":\#(value)}"#)
            case .page:
                return query(
                    #"{"fieldName":"done","comparator":"EQUALS","fieldValue":{"value":0}}"#,
                    sort: #"{"fieldName":"serial"}"#
                )
            }
        }
    }

    private static func hex(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

extension HTTPConnection {
    /// Sends requests one after the other; each must succeed.
    fileprivate func ask(_ requests: [[UInt8]]) throws {
        for request in requests { try exchange(request) { try $0.mustBeSuccess() } }
    }
}
