import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Wire
import ZoneTesting

/// Carries files to the relay and back while the world stands still: on a machine other threads do that beside the rest, and
/// here nothing but the seed is to decide about the order.
struct FileCarrier: Sendable {
    let relay: TestRelay

    func put(_ content: [UInt8], at address: String) -> APIResponse? {
        ask(APIRequest(method: .post, path: Self.path(address), body: content))
    }

    /// The same in two pieces, with a break in between.
    func putInTwo(_ content: [UInt8], at address: String) -> APIResponse? {
        let path = Self.path(address)
        guard let name = HTTPField.Name("Upload-Offset") else { return nil }
        var intake = begin(Array(content.prefix(content.count / 2)), at: path)
        // What is on its way to the disk holds it; its end is what keeps the piece.
        while intake != nil, !isKnownUniquelyReferenced(&intake) { sched_yield() }
        intake = nil
        guard let said = ask(APIRequest(method: .get, path: path)) else { return nil }
        let offset = said.headers[name].flatMap { Int($0) } ?? 0
        var rest = APIRequest(method: .post, path: path, body: Array(content.dropFirst(offset)))
        if offset > 0 { rest.headers[name] = "\(offset)" }
        return ask(rest)
    }

    /// Hands over the beginning of a body, and gives what has taken it.
    private func begin(_ piece: [UInt8], at path: String) -> AnyObject? {
        let intake = relay.relay?.intake(for: APIRequest(method: .post, path: path))
        _ = intake?.take(piece) {}
        return intake.map { $0 as AnyObject }
    }

    func get(_ address: String) -> APIResponse? { ask(APIRequest(method: .get, path: Self.path(address))) }

    private static func path(_ address: String) -> String {
        address.firstRange(of: "/asset/1/").map { String(address[$0.lowerBound...]) } ?? address
    }

    /// `nil` where the relay does not run.
    private func ask(_ request: APIRequest) -> APIResponse? {
        let relay = relay
        let (box, done) = (AnswerBox(), DispatchSemaphore(value: 0))
        // Not on the stage, which waits for it.
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

/// An address that somebody was given for a picture.
struct PictureAddress: Hashable, Sendable {
    var user: String
    var zone: ZoneName
    var record: String
    var checksum: String
    var address: String
}

/// Assets: what was saved is there, byte for byte, for those who may see its record, and for nobody else.
extension Judge {
    /// Looks a picture up as somebody, and gets it.
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

    /// Asks an address again that was given at some time.
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
            // An old address may have ended by the clock.
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

    /// The relay has taken a file, and called it so: by what was brought, and nothing else.
    func brought(_ content: [UInt8], as checksum: String) {
        state.withLock { $0.contents[checksum] = content }
        let hash = AssetHash(SHA256.hash(data: content))?.checksum ?? ""
        if hash != checksum { accuse("i", "a file was brought whose checksum is \(hash), and taken as \(checksum)") }
    }

    private static func bytes(of answer: APIResponse) -> [UInt8] {
        guard let file = answer.file, let handle = FileHandle(forReadingAtPath: file.path) else { return answer.body }
        defer { try? handle.close() }
        try? handle.seek(toOffset: UInt64(file.offset))
        return [UInt8]((try? handle.read(upToCount: Int(file.length))) ?? Data())
    }

    /// All pictures that there are, with their zones.
    var pictures: [(zone: ZoneName, record: String)] {
        truth.zones.flatMap { zone, content in
            content.records.filter { $0.value.fields["file"] != nil }.map { (zone, $0.key) }
        }
        .sorted { ($0.0.description, $0.1) < ($1.0.description, $1.1) }
    }

    /// Somebody asks to be let in by a link.
    func opens(_ link: String, _ user: String) {
        state.withLock { _ = $0.linksOpened[user, default: []].insert(link) }
    }

    /// Of any number of people who open a link that is good for one, one is let in.
    ///
    /// Who is in already is told so by any other link, which stays as good as it was, and answers overtake each other: so two
    /// people are accused where neither has opened another one.
    func hasJoined(_ user: String, by link: String) {
        let others = state.withLock { state in
            state.linksTaken[link, default: []].insert(user)
            let single = state.linksTaken[link, default: []].filter { state.linksOpened[$0] == [link] }
            return single.contains(user) ? single.subtracting([user]) : []
        }
        if let other = others.min() { accuse("h", "one link has let in both \(user) and \(other)") }
    }
}
