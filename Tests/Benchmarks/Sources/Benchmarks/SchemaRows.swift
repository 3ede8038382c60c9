import Sockets

/// What holding records against the schema costs those who write.
enum SchemaRows {
    /// Records of eight fields beside records of one with the same bytes in it: seven fields' reading, checking and writing
    /// make the difference, of which the check is a part.
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
                note: "seven fields more, read and written too: the check itself is a part of the difference"
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
