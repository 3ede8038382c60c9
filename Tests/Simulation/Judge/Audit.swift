import HTTPTypes
import Records
import RelayAPI
import Synchronization
import Wire
import ZoneTesting

/// A token that somebody was given once, to be asked with again: by pages of some size it has to lead to what there is now.
///
/// What the answers are worth the judge says itself, as of any others.
struct Question: Sendable {
    /// Whose token it is, by record name.
    var user: String
    var isShared: Bool
    /// `nil`: the database's.
    var zone: ZoneName?
    var token: String
    var limit: Int

    /// Asks page after page.
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
        judge.accuse("b", "a hundred pages of \(zone?.description ?? "the database") are not the end")
    }

    private func body(since token: String) -> String {
        guard let zone else { return #"{"syncToken":"\#(token)","resultsLimit":\#(limit)}"# }
        let id = #"{"zoneName":"\#(zone.name)","ownerRecordName":"\#(zone.owner)"}"#
        return #"{"zones":[{"zoneID":\#(id),"syncToken":"\#(token)","resultsLimit":\#(limit)}]}"#
    }
}

extension Judge {
    /// Some of all tokens that were handed out, with a size of pages for each; `pick` draws from so many.
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

    /// The notice sockets of a device that are open.
    func sockets(of device: String) -> Set<ObjectIdentifier> {
        state.withLock { state in Set(state.sockets.filter { $0.value.device == device }.keys) }
    }
}
