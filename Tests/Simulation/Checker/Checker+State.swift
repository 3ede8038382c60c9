import Records

extension Checker {
    struct State {
        /// All states of the store, newest last.
        var history: [StoreSnapshot] = [StoreSnapshot()]
        var snapshot: StoreSnapshot { history[history.count - 1] }
        /// All committed versions, and for each record their order; 0 stands for a deletion.
        var versions: [ZoneName: [String: [UInt64: Version]]] = [:]
        var versionOrders: [ZoneName: [String: [UInt64]]] = [:]
        var highest: UInt64 = 0
        /// The highest change number in a notice sent while the store could not be read.
        var lastUnverifiedChange: UInt64 = 0
        /// The texts that clients tried to write, with their records; no response may contain any other text.
        var attempted: [String: Set<RecordLocation>] = [:]
        /// The user who wrote each text through an engine, and the user who shares nothing with the other engine users.
        var writers: [String: String] = [:]
        var isolatedUser = ""
        /// Texts of rejected writes that no later request has tried to write again.
        var refused: [String: Set<RecordLocation>] = [:]
        /// Texts that the relay must never see unencrypted.
        var secrets: Set<String> = []
        /// Texts of accepted writes.
        var taken: Set<String> = []
        /// The content that a client has once it has reached each zone token and database token.
        var known: [String: KnownToken] = [:]
        var knownDatabases: [String: KnownDatabase] = [:]
        /// The content of all uploaded files by checksum, and all download URLs issued for them.
        var contents: [String: [UInt8]] = [:]
        var addresses: Set<PictureAddress> = []
        /// One-time links, the users whom each admitted, and the links that each user has opened.
        var links: Set<String> = []
        var linksTaken: [String: Set<String>] = [:]
        var linksOpened: [String: Set<String>] = [:]
        /// Which operations of a write with an operation ID have taken effect.
        var done: [WriteName: [Bool]] = [:]
        /// The value of `done` when the latest backup was made; the backup contains these outcomes.
        var doneInBackup: [WriteName: [Bool]] = [:]
        /// Users whose removal from a share is acknowledged.
        var removed: Set<Removal> = []
        /// How often each user has started to join.
        var joined: [Removal: Int] = [:]
        /// The zones that each user could see at some time.
        var seen: Set<Removal> = []
        /// Requests without a response so far.
        var open: [UInt64: OpenRequest] = [:]
        /// The authors of the current commit.
        var authors: [ZoneName: Author] = [:]
        var sockets: [ObjectIdentifier: NoticeSocket] = [:]
        /// Expected notices with their deadlines.
        var expectedNotices: [ExpectedNotice: Int64] = [:]
        /// Whether the store cannot be read after a disk failure; nothing is checked until the relay's next start.
        var isUnobservable = false
        /// How often all tokens were invalidated.
        var epoch = 0
        /// The number of tombstone purges in progress.
        var runningPurges = 0
        /// The latest purged deletion of each zone; earlier tokens are invalid.
        var horizons: [ZoneName: UInt64] = [:]
        var violations: [String] = []
        var trace: [String] = []
        /// Whether all records of the family have existed together.
        var isFamilyWhole = false
        var requests = 0
        var commits = 0
        var hash = Fingerprint()
    }

    /// The record that a text was to be written to.
    struct RecordLocation: Hashable, Sendable {
        var zone: ZoneName
        var record: String
    }

    struct KnownToken: Sendable {
        var zone: ZoneName
        var tags: [String: UInt64]
        var user: String
        var isShared: Bool
        /// The zone's number in the store, which shows whether the zone was recreated.
        var number: Int64
        var epoch: Int
    }

    struct KnownDatabase: Sendable {
        var zones: Set<ZoneName>
        var user: String
        var isShared: Bool
        var epoch: Int
    }

    struct WriteName: Hashable, Sendable {
        var user: String
        var id: String
    }

    /// A user, by record name, and a zone.
    struct Removal: Hashable, Sendable {
        var user: String
        var zone: ZoneName
    }

    /// A request in progress.
    struct OpenRequest: Sendable {
        /// The index of the store's state at the request's arrival.
        var since: Int
        /// Removals acknowledged before the request's arrival.
        var removed: Set<Removal>
        var write: WriteName?
        /// The texts that the request wants to write.
        var texts: Set<String> = []
        /// Whether the same write got a response before.
        var isRepeat = false
        /// Whether another request with the same write is in progress.
        var isDoubled = false
    }

    struct Author: Sendable {
        var user: String
        /// `nil` if several devices wrote.
        var device: String?
    }

    /// An open notice socket.
    struct NoticeSocket: Sendable {
        var device: String
        var user: String
    }

    /// A notice that a device must receive.
    struct ExpectedNotice: Hashable, Sendable {
        var socket: ObjectIdentifier
        var zone: ZoneName
    }
}

extension Checker.State {
    mutating func note(_ line: String) {
        hash.add(line)
        if trace.count > 600 { trace.removeFirst(300) }
        trace.append(line)
    }

    mutating func reportViolation(_ invariant: Character, _ what: String, _ time: Int64) {
        note("\(time) VIOLATION \(invariant): \(what)")
        // The first violations show the cause; the rest are consequences.
        if violations.count < 8 { violations.append("invariant \(invariant): \(what)") }
    }

    /// Returns whether a zone's content after a restart is possible: the committed content plus, at most, writes that
    /// were in progress, under change numbers not seen before.
    func mayHaveHappened(_ found: StoreSnapshot, in zone: ZoneName) -> Bool {
        let (old, new) = (snapshot.zones[zone], found.zones[zone])
        guard let old else { return true }
        guard let new, old.number == new.number else { return found.lastChange > highest }
        for (name, version) in old.records where new.records[name] != version {
            guard (new.records[name]?.change ?? new.tombstones[name] ?? 0) > highest else { return false }
        }
        return new.records.allSatisfy { old.records[$0.key] == $0.value || $0.value.change > highest }
    }

    /// Records that a backup was restored: the store continues from an earlier state, with the same clients.
    ///
    /// Issued tokens stay known, so that the checker notices if the relay accepts one of them.
    mutating func restoreBackup() {
        history.append(StoreSnapshot())
        (versions, versionOrders, highest, horizons) = ([:], [:], 0, [:])
        (done, removed, linksTaken, isFamilyWhole) = (doneInBackup, [], [:], false)
        // A removal that is acknowledged only now belongs to the discarded history.
        joined = joined.mapValues { $0 + 1 }
        epoch += 1
    }

    /// Adds the store's state after a commit.
    mutating func take(_ found: StoreSnapshot, _ authors: [ZoneName: Checker.Author], _ time: Int64) {
        let before = snapshot
        history.append(found)
        let floor = highest
        for (name, zone) in found.zones.sorted(by: { $0.key.description < $1.key.description }) {
            let old = before.zones[name]
            guard old != zone else { continue }
            if let old, old.number == zone.number, zone.lastChange < old.lastChange {
                reportViolation("c", "\(name) went back from \(old.lastChange) to \(zone.lastChange)", time)
            }
            take(zone, over: old?.number == zone.number ? old : nil, name, above: floor, time)
            expectNotices(of: name, from: before, to: found, by: authors[name], time)
        }
        for name in before.zones.keys.sorted(by: { $0.description < $1.description }) where found.zones[name] == nil {
            expectNotices(of: name, from: before, to: found, by: authors[name], time)
            versionOrders[name] = nil
            versions[name] = nil
            // The family may have been in the deleted zone.
            isFamilyWhole = isFamilyWhole && Step.familyNames.allSatisfy { before[name][$0] == nil }
        }
        highest = max(highest, found.lastChange)
        checkFamily(time)
    }

    private mutating func take(
        _ zone: StoreSnapshot.Zone,
        over old: StoreSnapshot.Zone?,
        _ name: ZoneName,
        above floor: UInt64,
        _ time: Int64
    ) {
        for (record, version) in zone.records where old?.records[record] != version {
            check(version, of: record, in: name, above: floor, time)
            versionOrders[name, default: [:]][record, default: []].append(version.change)
        }
        for (record, change) in zone.tombstones where old?.tombstones[record] != change {
            if change <= floor {
                reportViolation("c", "the deletion of \(record) took number \(change) after \(floor)", time)
            }
            highest = max(highest, change)
            versionOrders[name, default: [:]][record, default: []].append(0)
        }
        for record in (old?.records ?? [:]).keys where zone.records[record] == nil && zone.tombstones[record] == nil {
            // The commit that purged the tombstone may also have deleted the record.
            if runningPurges > 0 {
                horizons[name] = zone.lastChange
            } else if !name.isPublic {
                reportViolation("d", "\(record) in \(name) is gone without a tombstone", time)
            }
            versionOrders[name, default: [:]][record, default: []].append(0)
        }
        for (record, change) in old?.tombstones ?? [:]
        where zone.records[record] == nil && zone.tombstones[record] == nil && !zone.shareRecords.contains(record) {
            if runningPurges > 0 {
                horizons[name] = max(horizons[name] ?? 0, change)
            } else {
                reportViolation("d", "the tombstone of \(record) in \(name) is gone", time)
            }
        }
        checkGroup(zone.records, in: name, time)
        for shared in zone.shares.values {
            for user in shared.members.keys { seen.insert(Checker.Removal(user: user, zone: name)) }
        }
        highest = max(highest, zone.lastChange)
    }

    private mutating func check(
        _ version: Version,
        of record: String,
        in zone: ZoneName,
        above floor: UInt64,
        _ time: Int64
    ) {
        if version.change <= floor {
            reportViolation(
                "c",
                "\(record) in \(zone) took number \(version.change), and \(floor) was committed before",
                time
            )
        }
        highest = max(highest, version.change)
        versions[zone, default: [:]][record, default: [:]][version.change] = version
        let home = Checker.RecordLocation(zone: zone, record: record)
        for (field, text) in version.fields where !text.isEmpty {
            let homes = attempted[text] ?? []
            // A moved record was written in its former zone.
            if !homes.contains(where: { $0.record == record && $0.zone.owner == zone.owner }) {
                reportViolation(
                    "i",
                    "\(record) in \(zone) holds \(text) in \(field), which no client wrote there",
                    time
                )
            }
            if refused[text]?.contains(home) == true {
                reportViolation("g", "\(record) in \(zone) holds \(text) in \(field), which was refused", time)
            }
        }
    }

    /// Checks that records which are always written together have the same value.
    private mutating func checkGroup(_ records: [String: Version], in zone: ZoneName, _ time: Int64) {
        let texts = Step.groupNames.map { records[$0]?.fields["a"] }
        if Set(texts).count > 1 {
            reportViolation("g", "an atomic batch was applied in part in \(zone): \(texts)", time)
        }
    }

    /// Checks that all records of the family are in one zone after any number of moves.
    private mutating func checkFamily(_ time: Int64) {
        var places: [String: [ZoneName]] = [:]
        for (name, zone) in snapshot.zones {
            for record in Step.familyNames where zone.records[record] != nil {
                places[record, default: []].append(name)
            }
        }
        isFamilyWhole = isFamilyWhole || places.count == Step.familyNames.count
        guard isFamilyWhole else { return }
        for (record, zones) in places where zones.count > 1 {
            reportViolation("g", "\(record) was moved, and is in \(zones.map(\.description).sorted()) now", time)
        }
        if Set(places.values.map { $0.map(\.description) }).count > 1 || places.count < Step.familyNames.count {
            reportViolation("g", "a family was torn apart by a move: \(places)", time)
        }
    }
}

extension Step {
    static let groupNames = ["g0", "g1", "g2"]
    static let familyNames = ["f0", "f1", "f2"]
}
