import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Wire
import ZoneTesting

/// Observes all traffic between the relay and its devices, and compares it with the store.
///
/// Checks invariants a to l of Reliability.md, "Invariants", as far as they are visible from outside. `Simulation`
/// checks what only the devices can show.
final class Checker: RelayObserver {
    let clock: TestClock
    let state = Mutex(State())
    /// The record name of each user.
    let people = Mutex<[String: String]>([:])

    /// Returns whether the relay's disk works.
    let isDiskSound = Mutex<@Sendable () -> Bool>({ true })

    /// `nil` until the relay exists.
    let files = Mutex<AssetClient?>(nil)

    init(clock: TestClock) { self.clock = clock }

    var violations: [String] { state.withLock { $0.violations } }
    var snapshot: StoreSnapshot { state.withLock { $0.snapshot } }
    var now: Int64 { clock.now.offset.inMilliseconds }

    func note(_ line: @autoclosure () -> String) {
        let text = "\(now) \(line())"
        state.withLock { $0.note(text) }
    }

    func reportViolation(_ invariant: Character, _ what: String) {
        let time = now
        state.withLock { $0.reportViolation(invariant, what, time) }
    }

    /// The user's record name, or `user` itself until `people` is set.
    func names(_ user: String) -> String { people.withLock { $0[user] } ?? user }

    // MARK: Witness

    func opened(_ store: any Store) {
        do {
            let found = try StoreSnapshot(store)
            let report = try StoreSnapshot.integrityReport(of: store)
            if report != "ok" { reportViolation("k", "the store is damaged: \(report)") }
            let time = now
            state.withLock { state in
                state.isUnobservable = false
                if found.lastChange < state.lastUnverifiedChange {
                    state.reportViolation(
                        "e",
                        "change \(state.lastUnverifiedChange) was announced, and the store ends with \(found.lastChange)",
                        time
                    )
                }
                state.lastUnverifiedChange = 0
                // Change numbers are never reused: writes in progress at the crash may be stored, and nothing else.
                for zone in state.snapshot.zones.keys where !state.mayHaveHappened(found, in: zone) {
                    state.reportViolation(
                        "a",
                        "after a restart \(zone) is \(found[zone]), and was \(state.snapshot[zone])",
                        time
                    )
                }
                state.take(found, [:], time)
            }
            note("relay starts")
        } catch {
            reportViolation("k", "the store cannot be read: \(error)")
        }
    }

    func committed(_ commit: Commit, in store: any Store) {
        state.withLock { state in
            state.commits += 1
            for change in commit.zones {
                let author = (change.author ?? change.zone.owner).recordName
                state.authors[ZoneName(owner: change.zone.owner.recordName, name: change.zone.zoneName)] =
                    Author(user: author, device: change.device)
            }
        }
    }

    func wrote(in store: any Store) {
        do {
            let before = state.withLock { $0.snapshot }
            // Every 16th commit reads the whole store, to find changes without a new change number.
            let isFull = state.withLock { $0.history.count % 16 == 15 }
            let found = isFull ? try StoreSnapshot(store) : try before.after(store)
            let time = now
            state.withLock { state in
                let authors = state.authors
                state.authors = [:]
                if found != before { state.take(found, authors, time) }
            }
        } catch {
            if isDiskSound.withLock({ $0() }) {
                reportViolation("k", "the store cannot be read: \(error)")
            } else {
                state.withLock { $0.isUnobservable = true }
            }
        }
    }

    func asked(_ request: APIRequest, number: UInt64) {
        let body = try? JSONDocument(parsing: request.body).root
        let user = names(request.user)
        let attempts = body.map { self.attempts(in: $0, of: request) } ?? []
        let marked = state.withLock({ $0.secrets.isEmpty }) ? [] : Self.marked(in: request.body)
        state.withLock { state in
            state.requests += 1
            if let secret = marked.first(where: { state.secrets.contains($0) }) {
                state.reportViolation("f", "\(request.device) told the relay \(secret), which was to be encrypted", now)
            }
            state.open[number] = OpenRequest(since: state.history.count - 1, removed: state.removed)
            for attempt in attempts {
                state.attempted[attempt.text, default: []].insert(attempt.home)
                state.refused[attempt.text] = nil
                state.open[number]?.texts.insert(attempt.text)
                state.checkWriter(of: attempt.text, sentBy: user, now)
            }
            guard request.path.hasSuffix("s/modify"), let id = try? body?["operationID"]?.string() else { return }
            let name = WriteName(user: user, id: id)
            for other in state.open.keys where state.open[other]?.write == name {
                state.open[other]?.isDoubled = true
                state.open[number]?.isDoubled = true
            }
            state.open[number]?.write = name
            state.open[number]?.isRepeat = state.done[name] != nil
        }
    }

    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse) {
        guard let open = state.withLock({ $0.open.removeValue(forKey: number) }) else { return }
        let operation = request.path.split(separator: "/").dropFirst(4).joined(separator: "/")
        let name = request.device.hasPrefix(request.user) ? "" : " as \(request.user)"
        note("\(request.device)\(name) \(operation): \(answer.status.code)")
        guard !state.withLock({ $0.isUnobservable }) else { return }
        if answer.status.code >= 500, answer.status.code != 503 {
            reportViolation(
                "k",
                "\(operation) failed with status \(answer.status.code): \(String(decoding: answer.body, as: UTF8.self))"
            )
        }
        let exchange = Exchange(request: request, operation: operation, answer: answer, open: open)
        checkTexts(of: answer.body, to: names(request.user), in: exchange)
        guard let said = try? JSONDocument(parsing: answer.body).root else { return }
        let asked = try? JSONDocument(parsing: request.body).root
        do {
            try checkRecords(said, exchange)
            guard let asked else { return }
            if operation.hasSuffix("records/modify") { try checkWrite(asked, said, exchange) }
            if operation.hasSuffix("zones/modify") { try checkZones(asked, said, exchange) }
            if operation.hasSuffix("changes/zone") { try checkFeed(asked, said, exchange) }
            if operation.hasSuffix("changes/database") { try checkDatabaseFeed(asked, said, exchange) }
        } catch {
            reportViolation("b", "\(operation) has a malformed response: \(error)")
        }
    }
}

/// A request with its response.
struct Exchange {
    var request: APIRequest
    /// Such as `private/records/modify`.
    var operation: String
    var answer: APIResponse
    var open: Checker.OpenRequest

    var isShared: Bool { operation.hasPrefix("shared/") }
    var isPublic: Bool { operation.hasPrefix("public/") }
    var device: String { request.device }
}

extension APIRequest {
    var device: String { headers[.init("X-Zonecast-Device-ID") ?? .userAgent] ?? "?" }

    /// The user: NAME for the token `dev-NAME`; for other tokens, the prefix of the device's name.
    var user: String {
        let token = query?.split(separator: "&").first { $0.hasPrefix("ckWebAuthToken=") }?.dropFirst(15)
        guard let token else { return "" }
        return String(token.hasPrefix("dev-") ? token.dropFirst(4) : device.prefix { $0 != "-" })
    }
}

extension Duration {
    var inMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}

/// Invariant e: a connected user who may see a change gets a notice within two seconds, never before the commit.
extension Checker {
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier) {
        let time = now
        switch try? ServerFrame(decoding: frame) {
        case .ready(let ready)?:
            state.withLock { $0.sockets[socket] = NoticeSocket(device: device, user: ready.userRecordName) }
        case .notice(let notice)?:
            note("notice to \(device) about \(notice.zone?.zoneName ?? "everything")")
            state.withLock { $0.take(notice, device, socket, time) }
        default: break
        }
    }

    func ended(socket: ObjectIdentifier, device: String) {
        state.withLock { state in
            state.sockets[socket] = nil
            state.expectedNotices = state.expectedNotices.filter { $0.key.socket != socket }
        }
    }

    /// Reports overdue notices.
    ///
    /// Must be called regularly.
    func checkNotices() {
        let time = now
        state.withLock { state in
            for (expectedNotices, end) in state.expectedNotices where end < time {
                let device = state.sockets[expectedNotices.socket]?.device ?? "?"
                state.reportViolation(
                    "e",
                    "\(device) got no notice about a change of \(expectedNotices.zone) within 2 s",
                    time
                )
                state.expectedNotices[expectedNotices] = nil
            }
        }
    }
}

extension Checker.State {
    fileprivate mutating func take(_ notice: Notice, _ device: String, _ socket: ObjectIdentifier, _ time: Int64) {
        let user = notice.user.recordName
        guard let zone = notice.zone else {
            // A notice about the whole database covers all of its zones.
            expectedNotices = expectedNotices.filter {
                $0.key.socket != socket || ($0.key.zone.owner == user) != (notice.scope == .private)
            }
            return
        }
        let owner = notice.scope == .private ? user : zone.owner.recordName
        let name = ZoneName(owner: owner, name: zone.zoneName)
        expectedNotices[Checker.ExpectedNotice(socket: socket, zone: name)] = nil
        if owner != user, !seen.contains(Checker.Removal(user: user, zone: name)) {
            reportViolation("f", "\(device) was told of \(name), which was never shared with \(user.prefix(6))", time)
        }
        guard let token = notice.syncToken.flatMap({ ChangeToken(encoded: $0) }), token.position > highest else {
            return
        }
        let change = token.position
        guard isUnobservable else {
            return reportViolation(
                "e",
                "\(device) was told of change \(change) of \(name) before it was committed",
                time
            )
        }
        // While the disk cannot be read, the check is deferred until the relay's next start.
        lastUnverifiedChange = max(lastUnverifiedChange, change)
    }

    /// Adds the notices that a commit requires.
    mutating func expectNotices(
        of name: ZoneName,
        from before: StoreSnapshot,
        to found: StoreSnapshot,
        by author: Checker.Author?,
        _ time: Int64
    ) {
        guard !name.isDefault, !name.isPublic else { return }
        for (socket, listening) in sockets {
            let isOwner = listening.user == name.owner
            guard found.listeners.contains(StoreSnapshot.Listener(user: listening.user, scope: isOwner ? 2 : 3)),
                before.listeners.contains(StoreSnapshot.Listener(user: listening.user, scope: isOwner ? 2 : 3))
            else { continue }
            if let author, author.user == listening.user, author.device == listening.device { continue }
            let isConcerned =
                isOwner
                ? before.zones[name]?.lastChange != found.zones[name]?.lastChange
                : before.visible(name, to: listening.user) != found.visible(name, to: listening.user)
            guard isConcerned else { continue }
            let key = Checker.ExpectedNotice(socket: socket, zone: name)
            expectedNotices[key] = expectedNotices[key] ?? time + 2_000
        }
    }
}

/// Invariant j: what a removed participant may see after the owner's request was acknowledged.
extension Checker {
    /// Records that a user is about to join, which cancels an earlier removal.
    func joinStarted(_ removal: Removal) {
        state.withLock { state in
            state.removed.remove(removal)
            state.joined[removal, default: 0] += 1
        }
    }

    func joinCount(_ removal: Removal) -> Int { state.withLock { $0.joined[removal] ?? 0 } }

    /// Records an acknowledged removal, unless the user has started to join again since the owner's request began.
    func removalConfirmed(_ removal: Removal, since joins: Int) {
        state.withLock { state in
            if state.joined[removal] ?? 0 == joins { state.removed.insert(removal) }
        }
    }
}

/// Transfers files to and from the relay while the simulation waits.
///
/// On a real machine other threads do this concurrently. Here only the seed may decide about the order.
struct AssetClient: Sendable {
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
extension Checker {
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
    func recheckAsset(_ pick: (Int) -> Int) {
        let all = state.withLock { state in
            state.addresses.sorted { ($0.address, $0.user) < ($1.address, $1.user) }
        }
        if !all.isEmpty { fetch(all[pick(all.count)], isFresh: false) }
    }

    private func fetch(_ picture: PictureAddress, isFresh: Bool) {
        let isSound = isDiskSound.withLock { $0() }
        guard isSound, !state.withLock({ $0.isUnobservable }), let answer = files.withLock({ $0 })?.get(picture.address)
        else {
            return
        }
        let held = snapshot.visible(picture.zone, to: names(picture.user))?[picture.record]?.fields["file"]
        let isTheirs = held == "asset \(picture.checksum)"
        guard answer.status.code == 200 else {
            // An older URL may have expired.
            if isFresh, isTheirs {
                reportViolation(
                    "a",
                    "\(picture.record) in \(picture.zone) has no file for \(picture.user): \(answer.status.code)"
                )
            }
            return
        }
        if !isTheirs {
            reportViolation("j", "\(picture.user) was given the file of \(picture.record) in \(picture.zone)")
        }
        if Self.bytes(of: answer) != state.withLock({ $0.contents[picture.checksum] }) {
            reportViolation("a", "the file of \(picture.record) in \(picture.zone) is not what was saved")
        }
    }

    /// Checks that the relay reported the checksum of the uploaded content.
    func uploaded(_ content: [UInt8], as checksum: String) {
        state.withLock { $0.contents[checksum] = content }
        let hash = AssetHash(SHA256.hash(data: content))?.checksum ?? ""
        if hash != checksum { reportViolation("i", "a file with checksum \(hash) was accepted as \(checksum)") }
    }

    private static func bytes(of answer: APIResponse) -> [UInt8] {
        guard let file = answer.file, let handle = FileHandle(forReadingAtPath: file.path) else { return answer.body }
        defer { try? handle.close() }
        try? handle.seek(toOffset: UInt64(file.offset))
        return [UInt8]((try? handle.read(upToCount: Int(file.length))) ?? Data())
    }

    /// All current pictures, with their zones.
    var pictures: [(zone: ZoneName, record: String)] {
        snapshot.zones.flatMap { zone, content in
            content.records.filter { $0.value.fields["file"] != nil }.map { (zone, $0.key) }
        }
        .sorted { ($0.0.description, $0.1) < ($1.0.description, $1.1) }
    }

    /// Records that a user opens a link.
    func linkOpened(_ link: String, _ user: String) {
        state.withLock { _ = $0.linksOpened[user, default: []].insert(link) }
    }

    /// Checks that a one-time link admits only one of the users who open it.
    ///
    /// A user who has joined already may open another link successfully without using it up, and responses can overtake
    /// each other. So only users who have opened no other link count.
    func joinedByLink(_ user: String, by link: String) {
        let others = state.withLock { state in
            state.linksTaken[link, default: []].insert(user)
            let single = state.linksTaken[link, default: []].filter { state.linksOpened[$0] == [link] }
            return single.contains(user) ? single.subtracting([user]) : []
        }
        if let other = others.min() { reportViolation("h", "one link admitted both \(user) and \(other)") }
    }
}
