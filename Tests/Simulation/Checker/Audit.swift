import Foundation
import HTTPTypes
import Records
import RelayAPI
import Synchronization
import Wire
import ZoneTesting

/// A change token that the relay issued earlier, to be sent again: its pages must lead to the current content.
///
/// The checker validates the responses like all others.
struct TokenReplay: Sendable {
    /// The record name of the token's user.
    var user: String
    var isShared: Bool
    /// `nil` for a database token.
    var zone: ZoneName?
    var token: String
    var limit: Int

    /// Fetches all pages since the token.
    func ask(_ relay: TestRelay, as name: String, _ checker: Checker) async {
        var token = token
        for _ in 0..<100 {
            let request = APIRequest(
                method: .post,
                path:
                    "/database/1/\(TestRelay.containerIdentifier)/development/\(isShared ? "shared" : "private")/changes/\(zone == nil ? "database" : "zone")",
                query: "ckWebAuthToken=dev-\(name)",
                body: Array(body(since: token).utf8)
            )
            guard let answer = await relay.answer(request), let said = try? JSONDocument(parsing: answer.body).root
            else {
                return
            }
            let page = zone == nil ? said : (try? said["zones"]?.elements())?.first
            guard let next = try? page?["syncToken"]?.string(), (try? page?["moreComing"]?.bool()) == true else {
                return
            }
            token = next
        }
        checker.reportViolation("b", "\(zone?.description ?? "the database") has more than 100 pages")
    }

    private func body(since token: String) -> String {
        guard let zone else { return #"{"syncToken":"\#(token)","resultsLimit":\#(limit)}"# }
        let id = #"{"zoneName":"\#(zone.name)","ownerRecordName":"\#(zone.owner)"}"#
        return #"{"zones":[{"zoneID":\#(id),"syncToken":"\#(token)","resultsLimit":\#(limit)}]}"#
    }
}

extension Checker {
    /// Returns `count` of the tokens issued so far, each with a page size.
    ///
    /// `pick` returns a random index below its argument.
    func tokenReplays(_ count: Int, _ pick: (Int) -> Int) -> [TokenReplay] {
        let sizes = [1, 2, 3, 7]
        let all = state.withLock { state in
            state.known.sorted { $0.key < $1.key }.map { token, known in
                TokenReplay(user: known.user, isShared: known.isShared, zone: known.zone, token: token, limit: 1)
            }
                + state.knownDatabases.sorted { $0.key < $1.key }.map { token, known in
                    TokenReplay(user: known.user, isShared: known.isShared, zone: nil, token: token, limit: 1)
                }
        }
        guard !all.isEmpty else { return [] }
        return (0..<count).map { _ in
            var question = all[pick(all.count)]
            question.limit = sizes[pick(sizes.count)]
            return question
        }
    }

    /// The open notice sockets of a device.
    func sockets(of device: String) -> Set<ObjectIdentifier> {
        state.withLock { state in Set(state.sockets.filter { $0.value.device == device }.keys) }
    }
}

/// Requests another user's zones and records, and missing ones, through every operation.
///
/// Invariant f: the responses must differ only in the requested names.
struct AccessProbe: Sendable {
    /// A name that exists but is not visible to the caller, and one that does not exist.
    struct Pair: Sendable {
        var zone: (there: String, missing: String)
        var record: (there: String, missing: String)
    }

    let owner: String

    private static let pairs = [
        Pair(zone: ("Far", "Nil"), record: ("f0", "n0")),
        // In a zone of which the caller may see some records, or none.
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

    func run(_ relay: TestRelay, as stranger: String, _ checker: Checker) async {
        for pair in Self.pairs {
            for call in calls {
                // The caller may know a partly shared zone; only requests for its records are compared.
                if pair.zone.there == pair.zone.missing, !call.body.contains("RECORD") { continue }
                let name = ZoneName(owner: owner, name: pair.zone.there)
                // The caller would leave a zone that is shared with them.
                if call.path.hasSuffix("zones/modify"),
                    checker.snapshot.visible(name, to: checker.names(stranger)) != nil
                {
                    continue
                }
                // The caller may learn of records that have become visible meanwhile.
                guard checker.snapshot.visible(name, to: checker.names(stranger))?[pair.record.there] == nil else {
                    continue
                }
                let there = await ask(relay, call, pair.zone.there, pair.record.there, stranger)
                let missing = await ask(relay, call, pair.zone.missing, pair.record.missing, stranger)
                guard let there, let missing, there != missing else { continue }
                checker.reportViolation(
                    "f",
                    "\(call.path) tells an invisible name (\(there)) from a missing one (\(missing))"
                )
            }
        }
    }

    /// Returns the response without the requested names; `nil` if there is no response.
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
