import Floors
import Foundation
import Sockets

/// The cost of sharing: a page of a participant's feed, and a write that a hundred users see.
enum SharingRows {
    /// A shared zone, its owner, and how participants name it.
    private struct Shared {
        var relay: Relay
        var owner = Relay.Login.dev(0)
        var ownerName: String
        var shortGUID: String

        func join(_ user: Int) throws {
            let body = #"{"shortGUIDs":[{"value":"\#(shortGUID)"}]}"#
            let reply = try relay.reply(to: relay.call("records/accept", body, as: .dev(user), in: "public"))
            guard reply.contains("ACCEPTED") else { throw LoadError.peer("A share could not be joined: \(reply)") }
        }

        func page(of user: Relay.Login, in database: String) -> HTTPRequest {
            let zone = #"{"zoneName":"notes","ownerRecordName":"\#(ownerName)"}"#
            return relay.call("changes/zone", #"{"zones":[{"zoneID":\#(zone)}]}"#, as: user, in: database)
        }
    }

    /// Creates a zone with `count` records below one root and shares it, as a whole or as a hierarchy, by public link.
    private static func share(_ count: Int, asHierarchy isHierarchy: Bool, on relay: Relay) throws -> Shared {
        let owner = Relay.Login.dev(0)
        try relay.makeZones(["notes"], as: owner)
        let note = #""recordType":"Note","fields":{"title":{"value":"Bread, milk and what else we need"}}"#
        func save(_ operations: [String]) throws -> String {
            let body = #"{"zoneID":{"zoneName":"notes"},"operations":[\#(operations.joined(separator: ","))]}"#
            return try relay.reply(to: relay.call("records/modify", body, as: owner))
        }
        _ = try save([#"{"operationType":"create","record":{"recordName":"root",\#(note)}}"#])
        for start in stride(from: 0, to: count, by: 200) {
            _ = try save(
                (start..<min(start + 200, count)).map { number in
                    #"{"operationType":"create","record":{"recordName":"n\#(number)","parent":{"recordName":"root"},\#(note)}}"#
                }
            )
        }
        let what =
            isHierarchy
            ? #""recordName":"share","forRecord":{"recordName":"root"}"# : #""recordName":"cloudkit.zoneshare""#
        let saved = try save([
            #"{"operationType":"create","record":{\#(what),"recordType":"cloudkit.share","fields":{},"publicPermission":"READ_WRITE"}}"#
        ])
        let caller = try relay.reply(to: relay.call("users/caller", "{}", as: owner, in: "public"))
        return Shared(
            relay: relay,
            ownerName: try Self.text("userRecordName", in: caller),
            shortGUID: try Self.text("shortGUID", in: saved)
        )
    }

    private static func text(_ key: String, in json: String) throws -> String {
        guard let start = json.range(of: "\"\(key)\":\"")?.upperBound,
            let end = json[start...].firstIndex(of: "\"")
        else { throw LoadError.peer("No \(key) in the answer: \(json)") }
        return String(json[start..<end])
    }

    /// A page of 200 records for a participant, beside the owner's page of the same zone.
    static func feed(_ bench: inout Bench) throws {
        for isHierarchy in [false, true] {
            let relay = try bench.startRelay()
            let shared = try share(10_000, asHierarchy: isHierarchy, on: relay)
            try shared.join(1)
            var participant = try ClosedLoop(
                [NumberedRequest(shared.page(of: .dev(1), in: "shared"))],
                to: relay.endpoint
            )
            var owner = try ClosedLoop(
                [NumberedRequest(shared.page(of: shared.owner, in: "private"))],
                to: relay.endpoint
            )
            let seconds = bench.scale(1.0, quick: 0.5)
            let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
                try participant.run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
            } floor: {
                try owner.run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
            }
            bench.report.add(
                Finding(
                    "shared-feed",
                    "CPU of a participant's page of 200, \(isHierarchy ? "of a hierarchy" : "of a whole zone")",
                    unit: "µs",
                    paired,
                    against: "the owner's page",
                    target: .ratioAtMost(isHierarchy ? 2.5 : 1.15)
                )
            )
        }
    }

    /// A save in a zone with a hundred participants, including the owner, beside one in an unshared zone.
    static func write(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        let shared = try share(200, asHierarchy: false, on: relay)
        for user in 1...99 { try shared.join(user) }
        try relay.makeZones(["alone"], as: shared.owner)
        var both = try ClosedLoop([relay.create(1, in: "notes", as: shared.owner)], to: relay.endpoint)
        var alone = try ClosedLoop([relay.create(1, in: "alone", as: shared.owner)], to: relay.endpoint)
        let seconds = bench.scale(1.5, quick: 1)
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            try both.run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
        } floor: {
            try alone.run(seconds: seconds, meter: relay.meter).cpuPerRequest * 1e6
        }
        bench.report.add(
            Finding(
                "shared-write",
                "CPU of a save in a zone with 100 participants",
                unit: "µs",
                paired,
                against: "the same in an unshared zone",
                target: .ratioAtMost(2)
            )
        )
    }
}

extension Relay {
    /// Sends a call on a connection of its own and returns the response.
    fileprivate func reply(to request: HTTPRequest) throws -> String {
        try HTTPConnection(to: endpoint).exchange(request.bytes) { reply in
            try reply.mustBeSuccess()
            return String(decoding: reply.body, as: UTF8.self)
        }
    }
}
