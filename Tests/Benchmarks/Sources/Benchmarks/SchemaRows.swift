import Sockets

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
