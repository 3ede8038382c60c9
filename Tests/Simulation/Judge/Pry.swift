import Foundation
import HTTPTypes
import RelayAPI
import ZoneTesting

/// A stranger who asks for what is another's, and for what nobody has, in every way there is: invariant f has it that the
/// answers differ in nothing but the names that were asked for.
struct Pry: Sendable {
    /// What is there and not for the stranger; and what is not there.
    struct Pair: Sendable {
        var zone: (there: String, missing: String)
        var record: (there: String, missing: String)
    }

    let owner: String

    private static let pairs = [
        Pair(zone: ("Far", "Nil"), record: ("f0", "n0")),
        // In a zone of which the stranger may see some records, or none.
        Pair(zone: ("Tree", "Tree"), record: ("beside", "absent")),
    ]

    /// Path and body; `ZONE` and `RECORD` stand for names.
    private var calls: [(path: String, body: String)] {
        let zone = #""zoneID":{"zoneName":"ZONE","ownerRecordName":"\#(owner)"}"#
        let record = #"{"recordName":"RECORD"}"#
        return [
            ("shared/changes/zone", #"{"zones":[{\#(zone)}]}"#),
            ("shared/zones/lookup", #"{"zones":[{"zoneName":"ZONE","ownerRecordName":"\#(owner)"}]}"#),
            ("private/zones/lookup", #"{"zones":[{"zoneName":"ZONE","ownerRecordName":"\#(owner)"}]}"#),
            ("shared/records/lookup", #"{"records":[\#(record)],\#(zone)}"#),
            ("private/records/lookup", #"{"records":[\#(record)],\#(zone)}"#),
            (
                "shared/records/query",
                #"{"query":{"recordType":"Item","filterBy":[{"fieldName":"___recordID","comparator":"EQUALS","fieldValue":{"value":{"recordName":"RECORD"}}}]},\#(zone)}"#
            ),
            (
                "shared/records/modify",
                #"{"operations":[{"operationType":"update","record":{"recordName":"RECORD","recordType":"Item","recordChangeTag":"1","fields":{"a":{"value":"pried"}}}}],\#(zone)}"#
            ),
            (
                "shared/records/modify",
                #"{"operations":[{"operationType":"forceDelete","record":{"recordName":"RECORD"}}],\#(zone)}"#
            ),
            (
                "shared/zones/modify",
                #"{"operations":[{"operationType":"leave","zone":{"zoneID":{"zoneName":"ZONE","ownerRecordName":"\#(owner)"}}}]}"#
            ),
        ]
    }

    func run(_ relay: TestRelay, as stranger: String, _ judge: Judge) async {
        for pair in Self.pairs {
            for call in calls {
                // A zone that is partly theirs they may well name; only its records are compared.
                if pair.zone.there == pair.zone.missing, !call.body.contains("RECORD") { continue }
                let name = ZoneName(owner: owner, name: pair.zone.there)
                // What is shared with them they would leave.
                if call.path.hasSuffix("zones/modify"), judge.truth.visible(name, to: judge.names(stranger)) != nil {
                    continue
                }
                // What has come into their sight meanwhile they may hear of.
                guard judge.truth.visible(name, to: judge.names(stranger))?[pair.record.there] == nil else { continue }
                let there = await ask(relay, call, pair.zone.there, pair.record.there, stranger)
                let missing = await ask(relay, call, pair.zone.missing, pair.record.missing, stranger)
                guard let there, let missing, there != missing else { continue }
                judge.accuse("f", "\(call.path) tells a stranger what is there: \(there); and what is not: \(missing)")
            }
        }
    }

    /// The answer, without the names that were asked for; `nil` where there is none.
    private func ask(
        _ relay: TestRelay,
        _ call: (path: String, body: String),
        _ zone: String,
        _ record: String,
        _ user: String
    ) async -> String? {
        let body = call.body.replacing("ZONE", with: zone).replacing("RECORD", with: record)
        let request = APIRequest(
            method: .post,
            path: "/database/1/\(TestRelay.containerIdentifier)/development/\(call.path)",
            query: "ckWebAuthToken=dev-\(user)",
            body: Array(body.utf8)
        )
        guard let answer = await relay.answer(request) else { return nil }
        var text = String(decoding: answer.body, as: UTF8.self)
        for (name, word) in [(zone, "ZONE"), (record, "RECORD")] {
            text = text.replacing("\"\(name)\"", with: word).replacing("'\(name)'", with: word)
        }
        text = text.replacing(/"uuid":"[^"]*"/, with: "").replacing(/"(timestamp|syncToken)":[^,}]*/, with: "")
        return "\(answer.status.code) \(answer.headers.map(\.name.canonicalName)) \(text)"
    }
}
