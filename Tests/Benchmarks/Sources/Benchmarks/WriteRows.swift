import Floors
import Foundation
import Sockets

/// Durable writes: a response means that the record is on the disk.
enum WriteRows {
    /// One client with one record per request, beside one-row commits in SQLite.
    static func oneClient(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.makeZones(["one"])
        let bare = try BareRows(path: bench.path("bare-rows.sqlite"))
        let row = Array(SampleRecord.row.utf8)
        var client = try ClosedLoop([relay.create(1, in: "one")], to: relay.endpoint)
        let paired = try Paired.measure(rounds: bench.scale(11, quick: 5)) {
            try client.run(seconds: bench.scale(1.5, quick: 1), meter: relay.meter).requestsPerSecond
        } floor: {
            try bare.commitOneByOne(row, seconds: bench.scale(1.5, quick: 1))
        }
        bench.report.add(
            Finding(
                "write-one",
                "durable single-record writes, 1 client",
                unit: "/s",
                paired,
                against: "SQLite one-row commits",
                target: .ratioAtLeast(0.6)
            )
        )
        try besideBareServer(
            &bench,
            &client,
            relay,
            count: 1,
            path: "/row/1",
            floor: "one commit a request",
            ratio: 0.8,
            microseconds: 100
        )
        try besideAnotherServer(&bench, &client, relay)
    }

    /// Measures clients of the relay beside as many clients of a bare server, which sets the upper bound for any server
    /// that answers over a socket: one thread, SQLite's rows, no JSON and no users.
    private static func besideBareServer(
        _ bench: inout Bench,
        _ clients: inout ClosedLoop,
        _ relay: Relay,
        count: Int,
        path: String,
        floor: String,
        ratio: Double,
        microseconds: Double
    ) throws {
        let server = try bench.startBareServer()
        let request = HTTPRequest("POST", path, to: server.requests, body: Array(SampleRecord.row.utf8))
        var bare = try ClosedLoop(
            Array(repeating: NumberedRequest(request), count: count),
            to: server.requests
        )
        let seconds = bench.scale(2.0, quick: 1.5)
        var (costs, bareCosts): ([Double], [Double]) = ([], [])
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            let outcome = try clients.run(seconds: seconds, meter: relay.meter)
            costs.append(outcome.cpuPerRequest * 1e6)
            return outcome.requestsPerSecond
        } floor: {
            let outcome = try bare.run(seconds: seconds, meter: server.meter)
            bareCosts.append(outcome.cpuPerRequest * 1e6)
            return outcome.requestsPerSecond
        }
        let row = "write-\(count == 1 ? "one" : "\(count)")"
        let floor = "a bare server: \(floor)"
        bench.report.add(
            Finding(
                row,
                "the same beside a bare server",
                unit: "/s",
                paired,
                against: floor,
                target: .ratioAtLeast(ratio)
            )
        )
        bench.report.add(
            Finding(
                row,
                "relay CPU per write, \(count) client\(count == 1 ? "" : "s")",
                unit: "us",
                Paired(relay: costs, floor: bareCosts),
                against: floor,
                target: .atMost(microseconds)
            )
        )
    }

    /// The same beside PostgreSQL, which also answers over a socket.
    private static func besideAnotherServer(
        _ bench: inout Bench,
        _ client: inout ClosedLoop,
        _ relay: Relay
    ) throws {
        guard let postgres = try bench.startPostgres(for: "write-one") else { return }
        let seconds = bench.scale(2.0, quick: 1)
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            try client.run(seconds: seconds, meter: relay.meter).requestsPerSecond
        } floor: {
            try postgres.insert(SampleRecord.row, rowsPerInsert: 1, connections: 1, seconds: seconds)
        }
        bench.report.add(
            Finding(
                "write-one",
                "the same beside another server",
                unit: "/s",
                paired,
                against: "PostgreSQL, one connection"
            )
        )
    }

    /// 64 clients in one zone, beside 64 connections of pgbench and beside a bare server.
    static func manyClients(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.makeZones(["one"])
        let postgres = try bench.startPostgres(for: "write-64")
        var clients = try ClosedLoop(
            Array(repeating: relay.create(1, in: "one"), count: 64),
            to: relay.endpoint
        )
        let paired = try Paired.measure(rounds: bench.scale(7, quick: 3)) {
            try clients.run(seconds: bench.scale(3, quick: 2), meter: relay.meter).requestsPerSecond
        } floor: {
            try postgres?.insert(
                SampleRecord.row,
                rowsPerInsert: 1,
                connections: 64,
                seconds: bench.scale(3, quick: 2)
            ) ?? 0
        }
        bench.report.add(
            Finding(
                "write-64",
                "durable single-record writes, 64 clients in one zone",
                unit: "/s",
                postgres == nil ? Paired(relay: paired.relay) : paired,
                against: "PostgreSQL",
                target: .ratioAtLeast(1.5)
            )
        )
        try besideBareServer(
            &bench,
            &clients,
            relay,
            count: 64,
            path: "/shared-row/1",
            floor: "one commit for all that wait",
            ratio: 0.75,
            microseconds: 40
        )
    }

    /// 64 clients in 64 zones, beside the same in one zone.
    static func manyZones(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        let zones = (0..<64).map { "zone-\($0)" }
        try relay.makeZones(zones + ["one"])
        let spread = zones.map { relay.create(1, in: $0) }
        var inMany = try ClosedLoop(spread, to: relay.endpoint, numberingFrom: 1 << 40)
        var inOne = try ClosedLoop(
            Array(repeating: relay.create(1, in: "one"), count: 64),
            to: relay.endpoint
        )
        let seconds = bench.scale(3.0, quick: 2)
        let paired = try Paired.measure(rounds: bench.scale(7, quick: 3)) {
            try inMany.run(seconds: seconds, meter: relay.meter).requestsPerSecond
        } floor: {
            try inOne.run(seconds: seconds, meter: relay.meter).requestsPerSecond
        }
        bench.report.add(
            Finding(
                "write-zones",
                "64 clients in 64 zones",
                unit: "/s",
                paired,
                against: "the same in one zone",
                target: .ratioAtLeast(0.95),
                note: "asked: no slower; 5 % are left to chance"
            )
        )
    }

    /// 200 records per request: with one client and with eight beside PostgreSQL's multi-row insert, and with one beside
    /// a bare server.
    static func batches(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.makeZones(["one"])
        let postgres = try bench.startPostgres(for: "write-batch")
        for count in [1, 8] {
            let requests = Array(repeating: relay.create(200, in: "one"), count: count)
            var clients = try ClosedLoop(requests, to: relay.endpoint, numberingFrom: count << 40)
            let seconds = bench.scale(3.0, quick: 2)
            let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
                200 * (try clients.run(seconds: seconds, meter: relay.meter).requestsPerSecond)
            } floor: {
                try postgres?.insert(SampleRecord.row, rowsPerInsert: 200, connections: count, seconds: seconds) ?? 0
            }
            bench.report.add(
                Finding(
                    "write-batch",
                    "requests of 200 records, \(count) client\(count == 1 ? "" : "s")",
                    unit: "records/s",
                    postgres == nil ? Paired(relay: paired.relay) : paired,
                    against: "PostgreSQL multi-row insert",
                    target: .ratioAtLeast(1)
                )
            )
        }
        let server = try bench.startBareServer()
        let rows = Array(Array(repeating: SampleRecord.row, count: 200).joined(separator: "\n").utf8)
        let request = NumberedRequest(HTTPRequest("POST", "/rows/1", to: server.requests, body: rows))
        var own = try ClosedLoop([relay.create(200, in: "one")], to: relay.endpoint, numberingFrom: 1 << 44)
        var bare = try ClosedLoop([request], to: server.requests)
        let seconds = bench.scale(3.0, quick: 2)
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            200 * (try own.run(seconds: seconds, meter: relay.meter).requestsPerSecond)
        } floor: {
            200 * (try bare.run(seconds: seconds, meter: server.meter).requestsPerSecond)
        }
        bench.report.add(
            Finding(
                "write-batch",
                "requests of 200 records, 1 client, beside a bare server",
                unit: "records/s",
                paired,
                against: "a bare server: SQLite's rows, one commit a request",
                target: .ratioAtLeast(0.95)
            )
        )
    }
}

/// The cost of checking records against the schema.
enum SchemaRows {
    /// Records with eight fields, beside records with one field of the same bytes.
    ///
    /// The difference contains parsing, checking and writing of seven fields.
    static func fields(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        try relay.makeZones(["one"])
        let many = (0..<8).map { #""field\#($0)":{"value":"a line of text that is stored","type":"STRING"}"# }
        let eight = many.joined(separator: ",")
        // The same number of bytes, in one string.
        let frame = #""field0":{"value":"","type":"STRING"}"#
        let text = String(repeating: "x", count: eight.utf8.count - frame.utf8.count)
        let one = #""field0":{"value":"\#(text)","type":"STRING"}"#
        var loops = try [("Eight", eight), ("One", one)].enumerated().map { place, form in
            let request = relay.create(type: form.0, fields: form.1)
            let requests = Array(repeating: request, count: 64)
            return try ClosedLoop(requests, to: relay.endpoint, numberingFrom: place << 40 + 1)
        }
        let seconds = bench.scale(3.0, quick: 2)
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            try loops[0].run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
        } floor: {
            try loops[1].run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
        }
        bench.report.add(
            Finding(
                "write-fields",
                "relay CPU per write of a record with eight fields, each held against the schema",
                unit: "us",
                paired,
                against: "one field of the same bytes",
                note: "the difference also contains parsing and writing of seven more fields"
            )
        )
    }
}

extension Relay {
    fileprivate func create(type: String, fields: String) -> NumberedRequest {
        let name = "\(type)-\(NumberedRequest.mark)"
        let record = #"{"recordName":"\#(name)","recordType":"\#(type)","fields":{\#(fields)}}"#
        let body = #"{"zoneID":{"zoneName":"one"},"operations":[{"operationType":"create","record":\#(record)}]}"#
        return NumberedRequest(call("records/modify", body))
    }
}
