import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Wire
import ZoneTesting

/// Transfers files to and from the relay while the simulation waits.
///
/// On a real machine other threads do this concurrently. Here only the seed may decide about the order.
struct FileCarrier: Sendable {
    let relay: TestRelay

    func put(_ content: [UInt8], at address: String) -> APIResponse? {
        ask(APIRequest(method: .post, path: Self.path(address), body: content))
    }

    /// Uploads the file in two parts, interrupting the upload in between.
    func putInTwo(_ content: [UInt8], at address: String) -> APIResponse? {
        let path = Self.path(address)
        guard let name = HTTPField.Name("Upload-Offset") else { return nil }
        var intake = begin(Array(content.prefix(content.count / 2)), at: path)
        // Writes in progress retain the upload; releasing the last reference stores the part received so far.
        while intake != nil, !isKnownUniquelyReferenced(&intake) { sched_yield() }
        intake = nil
        guard let said = ask(APIRequest(method: .get, path: path)) else { return nil }
        let offset = said.headers[name].flatMap { Int($0) } ?? 0
        var rest = APIRequest(method: .post, path: path, body: Array(content.dropFirst(offset)))
        if offset > 0 { rest.headers[name] = "\(offset)" }
        return ask(rest)
    }

    /// Sends the beginning of a body, and returns the upload object that received it.
    private func begin(_ piece: [UInt8], at path: String) -> AnyObject? {
        let intake = relay.relay?.intake(for: APIRequest(method: .post, path: path))
        _ = intake?.take(piece) {}
        return intake.map { $0 as AnyObject }
    }

    func get(_ address: String) -> APIResponse? { ask(APIRequest(method: .get, path: Self.path(address))) }

    private static func path(_ address: String) -> String {
        address.firstRange(of: "/asset/1/").map { String(address[$0.lowerBound...]) } ?? address
    }

    /// `nil` if the relay does not run.
    private func ask(_ request: APIRequest) -> APIResponse? {
        let relay = relay
        let (box, done) = (AnswerBox(), DispatchSemaphore(value: 0))
        // Not on the simulation's executor, which waits for the response.
        Task { @concurrent in
            let said = await relay.answer(request)
            box.answer.withLock { $0 = said }
            done.signal()
        }
        done.wait()
        return box.answer.withLock { $0 }
    }

    private final class AnswerBox: Sendable {
        let answer = Mutex<APIResponse?>(nil)
    }
}

/// A download URL that a user received for a picture.
struct PictureAddress: Hashable, Sendable {
    var user: String
    var zone: ZoneName
    var record: String
    var checksum: String
    var address: String
}

/// Assets: a user who may see a record gets the exact bytes that were saved; all other users get nothing.
extension Judge {
    /// Looks up a picture as a user, and downloads it.
    func look(at record: String, in zone: ZoneName, as name: String, _ relay: TestRelay) async {
        let scope = zone.owner == names(name) ? "private" : "shared"
        let body =
            #"{"zoneID":{"zoneName":"\#(zone.name)","ownerRecordName":"\#(zone.owner)"},"records":[{"recordName":"\#(record)"}]}"#
        let request = APIRequest(
            method: .post,
            path: "/database/1/\(TestRelay.containerIdentifier)/development/\(scope)/records/lookup",
            query: "ckWebAuthToken=dev-\(name)",
            body: Array(body.utf8)
        )
        guard let answer = await relay.answer(request),
            let said = try? JSONDocument(parsing: answer.body).root,
            let value = (try? said["records"]?.elements())?.first?["fields"]?["file"]?["value"],
            let checksum = try? value["fileChecksum"]?.string(), let url = try? value["downloadURL"]?.string()
        else { return }
        let address = PictureAddress(user: name, zone: zone, record: record, checksum: checksum, address: url)
        state.withLock { _ = $0.addresses.insert(address) }
        fetch(address, isFresh: true)
    }

    /// Requests a download URL again that the relay issued earlier.
    func lookAgain(_ pick: (Int) -> Int) {
        let all = state.withLock { state in
            state.addresses.sorted { ($0.address, $0.user) < ($1.address, $1.user) }
        }
        if !all.isEmpty { fetch(all[pick(all.count)], isFresh: false) }
    }

    private func fetch(_ picture: PictureAddress, isFresh: Bool) {
        let isSound = isDiskSound.withLock { $0() }
        guard isSound, !state.withLock({ $0.isBlind }), let answer = files.withLock({ $0 })?.get(picture.address) else {
            return
        }
        let held = truth.visible(picture.zone, to: names(picture.user))?[picture.record]?.fields["file"]
        let isTheirs = held == "asset \(picture.checksum)"
        guard answer.status.code == 200 else {
            // An older URL may have expired.
            if isFresh, isTheirs {
                accuse(
                    "a",
                    "\(picture.record) in \(picture.zone) has no file for \(picture.user): \(answer.status.code)"
                )
            }
            return
        }
        if !isTheirs { accuse("j", "\(picture.user) was given the file of \(picture.record) in \(picture.zone)") }
        if Self.bytes(of: answer) != state.withLock({ $0.contents[picture.checksum] }) {
            accuse("a", "the file of \(picture.record) in \(picture.zone) is not what was saved")
        }
    }

    /// Checks that the relay reported the checksum of the uploaded content.
    func brought(_ content: [UInt8], as checksum: String) {
        state.withLock { $0.contents[checksum] = content }
        let hash = AssetHash(SHA256.hash(data: content))?.checksum ?? ""
        if hash != checksum { accuse("i", "a file with checksum \(hash) was accepted as \(checksum)") }
    }

    private static func bytes(of answer: APIResponse) -> [UInt8] {
        guard let file = answer.file, let handle = FileHandle(forReadingAtPath: file.path) else { return answer.body }
        defer { try? handle.close() }
        try? handle.seek(toOffset: UInt64(file.offset))
        return [UInt8]((try? handle.read(upToCount: Int(file.length))) ?? Data())
    }

    /// All current pictures, with their zones.
    var pictures: [(zone: ZoneName, record: String)] {
        truth.zones.flatMap { zone, content in
            content.records.filter { $0.value.fields["file"] != nil }.map { (zone, $0.key) }
        }
        .sorted { ($0.0.description, $0.1) < ($1.0.description, $1.1) }
    }

    /// Records that a user opens a link.
    func opens(_ link: String, _ user: String) {
        state.withLock { _ = $0.linksOpened[user, default: []].insert(link) }
    }

    /// Checks that a one-time link admits only one of the users who open it.
    ///
    /// A user who has joined already may open another link successfully without using it up, and responses can overtake
    /// each other. So only users who have opened no other link count.
    func hasJoined(_ user: String, by link: String) {
        let others = state.withLock { state in
            state.linksTaken[link, default: []].insert(user)
            let single = state.linksTaken[link, default: []].filter { state.linksOpened[$0] == [link] }
            return single.contains(user) ? single.subtracting([user]) : []
        }
        if let other = others.min() { accuse("h", "one link admitted both \(user) and \(other)") }
    }
}
