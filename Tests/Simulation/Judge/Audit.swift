import HTTPTypes
import Records
import RelayAPI
import Synchronization
import Wire
import ZoneTesting

/// A change token that the relay issued earlier, to be sent again: its pages must lead to the current content.
///
/// The checker validates the responses like all others.
struct Question: Sendable {
    /// The record name of the token's user.
    var user: String
    var isShared: Bool
    /// `nil` for a database token.
    var zone: ZoneName?
    var token: String
    var limit: Int

    /// Fetches all pages since the token.
    func ask(_ relay: TestRelay, as name: String, _ judge: Judge) async {
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
        judge.accuse("b", "\(zone?.description ?? "the database") has more than 100 pages")
    }

    private func body(since token: String) -> String {
        guard let zone else { return #"{"syncToken":"\#(token)","resultsLimit":\#(limit)}"# }
        let id = #"{"zoneName":"\#(zone.name)","ownerRecordName":"\#(zone.owner)"}"#
        return #"{"zones":[{"zoneID":\#(id),"syncToken":"\#(token)","resultsLimit":\#(limit)}]}"#
    }
}

extension Judge {
    /// Returns `count` of the tokens issued so far, each with a page size.
    ///
    /// `pick` returns a random index below its argument.
    func questions(_ count: Int, _ pick: (Int) -> Int) -> [Question] {
        let sizes = [1, 2, 3, 7]
        let all = state.withLock { state in
            state.known.sorted { $0.key < $1.key }.map { token, known in
                Question(user: known.user, isShared: known.isShared, zone: known.zone, token: token, limit: 1)
            }
                + state.knownDatabases.sorted { $0.key < $1.key }.map { token, known in
                    Question(user: known.user, isShared: known.isShared, zone: nil, token: token, limit: 1)
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
