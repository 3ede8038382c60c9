import Sockets

/// The cost of query subscriptions for writers.
enum SubscriptionRows {
    /// Writes with 10,000 query subscriptions that match none of them, beside the same writes without subscriptions.
    ///
    /// A thousand subscriptions belong to the writer and to the written type, but have other values. The rest belong to
    /// other users and types.
    static func uninterested(_ bench: inout Bench) throws {
        let quiet = try bench.startRelay()
        let watched = try bench.startRelay()
        for relay in [quiet, watched] {
            try relay.makeZones(["one"])
            // A connected device of the writer's: the relay matches nothing without listeners.
            try relay.ask("tokens/create", "{}")
        }
        try watched.watch(1_000, type: "Note")
        for user in 0..<9 { try watched.watch(1_000, type: "Other\(user)", as: .dev(user)) }
        var loops = try [quiet, watched].map {
            try ClosedLoop(Array(repeating: $0.create(1, in: "one"), count: 64), to: $0.endpoint)
        }
        let seconds = bench.scale(3.0, quick: 2)
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            try loops[1].run(seconds: seconds, meter: watched.meter).cpuPerRequest * 1e6
        } floor: {
            try loops[0].run(seconds: seconds, meter: quiet.meter).cpuPerRequest * 1e6
        }
        bench.report.add(
            Finding(
                "write-watched",
                "relay CPU per write among 10,000 query subscriptions on other types and values",
                unit: "us",
                paired,
                against: "the same without subscriptions",
                target: .ratioAtMost(1.05)
            )
        )
    }
}

extension Relay {
    /// Creates `count` query subscriptions, each on one value of a field.
    fileprivate func watch(_ count: Int, type: String, as login: Login? = nil) throws {
        for start in stride(from: 0, to: count, by: 200) {
            let operations = (start..<min(start + 200, count)).map { number in
                let value = #"{"value":"title \#(number)","type":"STRING"}"#
                let filter = #"{"comparator":"EQUALS","fieldName":"title","fieldValue":\#(value)}"#
                return """
                    {"operationType":"create","subscription":{"subscriptionID":"watch-\(number)",\
                    "subscriptionType":"query","firesOn":["create","update"],\
                    "query":{"recordType":"\(type)","filterBy":[\(filter)]}}}
                    """
            }
            try ask("subscriptions/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#, as: login)
        }
    }
}
