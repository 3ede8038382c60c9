import Records

extension Judge {
    struct State {
        /// Every state that the store was in, the newest last.
        var history: [Truth] = [Truth()]
        var truth: Truth { history[history.count - 1] }
        /// Every version that was ever committed, and for each record the order of them; 0 stands for a deletion.
        var versions: [ZoneName: [String: [UInt64: Version]]] = [:]
        var chains: [ZoneName: [String: [UInt64]]] = [:]
        var highest: UInt64 = 0
        /// The latest change that somebody was told of while the store could not be read.
        var toldBlindly: UInt64 = 0
        /// What clients asked to be written, and where: nothing else may ever be read.
        var attempted: [String: Set<Home>] = [:]
        /// Who wrote a text by an engine's program, and who shares nothing with anybody that engines write.
        var writers: [String: String] = [:]
        var loner = ""
        /// Texts that were refused, and that nothing else has asked for since.
        var refused: [String: Set<Home>] = [:]
        /// What the relay is never to see.
        var secrets: Set<String> = []
        /// Texts of writes that were taken.
        var taken: Set<String> = []
        /// The state that each zone token and database token stands for, as its holders have it.
        var known: [String: Known] = [:]
        var knownDatabases: [String: KnownDatabase] = [:]
        /// What was ever brought as a file, by its checksum; and all addresses that were given out for it.
        var contents: [String: [UInt8]] = [:]
        var addresses: Set<PictureAddress> = []
        /// Links that are good for one person each, whom each has let in, and which ones people have opened.
        var links: Set<String> = []
        var linksTaken: [String: Set<String>] = [:]
        var linksOpened: [String: Set<String>] = [:]
        /// Which operations of a named write have taken effect.
        var done: [WriteName: [Bool]] = [:]
        /// The same when the latest backup was made, which remembers them.
        var doneInBackup: [WriteName: [Bool]] = [:]
        /// Who was removed from a share, and by which request from then on.
        var removed: Set<Removal> = []
        /// How often somebody has begun to join.
        var joined: [Removal: Int] = [:]
        /// Who may have seen what, at some time.
        var seen: Set<Removal> = []
        /// Requests that are not answered yet.
        var open: [UInt64: Open] = [:]
        /// Of the commit that is being made.
        var authors: [ZoneName: Author] = [:]
        var sockets: [ObjectIdentifier: Listening] = [:]
        /// Notices that have to come, and until when.
        var due: [Due: Int64] = [:]
        /// The disk has failed so that nobody can look: what happens until the next start is unknown.
        var isBlind = false
        /// How often everybody's tokens were made void.
        var epoch = 0
        /// How often the relay is just about to forget its tombstones.
        var forgetting = 0
        /// By zone the latest deletion that was forgotten: tokens from before it are void.
        var horizons: [ZoneName: UInt64] = [:]
        var violations: [String] = []
        var trace: [String] = []
        /// Whether all of the family were there once.
        var isFamilyWhole = false
        var requests = 0
        var commits = 0
        var hash = Fingerprint()
    }

    /// Where a text was to be written.
    struct Home: Hashable, Sendable {
        var zone: ZoneName
        var record: String
    }

    struct Known: Sendable {
        var zone: ZoneName
        var tags: [String: UInt64]
        var user: String
        var isShared: Bool
        /// The zone's own, to see whether it is the same zone still.
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

    /// A request under way.
    struct Open: Sendable {
        /// The state that was there when it came.
        var since: Int
        /// Who was removed before it came.
        var removed: Set<Removal>
        var write: WriteName?
        /// What it asks to be written.
        var texts: Set<String> = []
        /// The same write was answered before.
        var isRepeat = false
        /// The same write is under way as another request too.
        var isDoubled = false
    }

    struct Author: Sendable {
        var user: String
        /// `nil`: several.
        var device: String?
    }

    /// An open notice socket.
    struct Listening: Sendable {
        var device: String
        var user: String
    }

    /// A notice that a device has to get.
    struct Due: Hashable, Sendable {
        var socket: ObjectIdentifier
        var zone: ZoneName
    }
}

extension Judge.State {
    mutating func note(_ line: String) {
        hash.add(line)
        if trace.count > 600 { trace.removeFirst(300) }
        trace.append(line)
    }

    mutating func accuse(_ invariant: Character, _ what: String, _ time: Int64) {
        note("\(time) VIOLATION \(invariant): \(what)")
        // The first ones say why; of the rest nobody learns anything.
        if violations.count < 8 { violations.append("invariant \(invariant): \(what)") }
    }

    /// Whether a zone that is found after a restart can be what the last life left: what was there, and at the most what
    /// was under way, under numbers that were not known yet.
    func mayHaveHappened(_ found: Truth, in zone: ZoneName) -> Bool {
        let (old, new) = (truth.zones[zone], found.zones[zone])
        guard let old else { return true }
        guard let new, old.number == new.number else { return found.lastChange > highest }
        for (name, version) in old.records where new.records[name] != version {
            guard (new.records[name]?.change ?? new.tombstones[name] ?? 0) > highest else { return false }
        }
        return new.records.allSatisfy { old.records[$0.key] == $0.value || $0.value.change > highest }
    }

    /// What the relay has is of an earlier time: from there on it is another history, with the same clients.
    ///
    /// What they were told stays known, so that whoever is served by an old token is seen to have been.
    mutating func goBack() {
        history.append(Truth())
        (versions, chains, highest, horizons) = ([:], [:], 0, [:])
        (done, removed, linksTaken, isFamilyWhole) = (doneInBackup, [], [:], false)
        // An end of a share that is heard of only now is of the other history.
        joined = joined.mapValues { $0 + 1 }
        epoch += 1
    }

    /// A commit has made the store so.
    mutating func take(_ found: Truth, _ authors: [ZoneName: Judge.Author], _ time: Int64) {
        let before = truth
        history.append(found)
        let floor = highest
        for (name, zone) in found.zones.sorted(by: { $0.key.description < $1.key.description }) {
            let old = before.zones[name]
            guard old != zone else { continue }
            if let old, old.number == zone.number, zone.lastChange < old.lastChange {
                accuse("c", "\(name) went back from \(old.lastChange) to \(zone.lastChange)", time)
            }
            take(zone, over: old?.number == zone.number ? old : nil, name, above: floor, time)
            expectNotices(of: name, from: before, to: found, by: authors[name], time)
        }
        for name in before.zones.keys.sorted(by: { $0.description < $1.description }) where found.zones[name] == nil {
            expectNotices(of: name, from: before, to: found, by: authors[name], time)
            chains[name] = nil
            versions[name] = nil
            // With the zone the family may have gone that was in it.
            isFamilyWhole = isFamilyWhole && Step.familyNames.allSatisfy { before[name][$0] == nil }
        }
        highest = max(highest, found.lastChange)
        judgeFamily(time)
    }

    private mutating func take(
        _ zone: Truth.Zone,
        over old: Truth.Zone?,
        _ name: ZoneName,
        above floor: UInt64,
        _ time: Int64
    ) {
        for (record, version) in zone.records where old?.records[record] != version {
            judge(version, of: record, in: name, above: floor, time)
            chains[name, default: [:]][record, default: []].append(version.change)
        }
        for (record, change) in zone.tombstones where old?.tombstones[record] != change {
            if change <= floor { accuse("c", "the deletion of \(record) took number \(change) after \(floor)", time) }
            highest = max(highest, change)
            chains[name, default: [:]][record, default: []].append(0)
        }
        for record in (old?.records ?? [:]).keys where zone.records[record] == nil && zone.tombstones[record] == nil {
            // It may have been deleted in the very commit that forgot it.
            if forgetting > 0 {
                horizons[name] = zone.lastChange
            } else if !name.isPublic {
                accuse("d", "\(record) in \(name) is gone without a tombstone", time)
            }
            chains[name, default: [:]][record, default: []].append(0)
        }
        for (record, change) in old?.tombstones ?? [:]
        where zone.records[record] == nil && zone.tombstones[record] == nil && !zone.shareRecords.contains(record) {
            if forgetting > 0 {
                horizons[name] = max(horizons[name] ?? 0, change)
            } else {
                accuse("d", "the tombstone of \(record) in \(name) is gone", time)
            }
        }
        judgeGroup(zone.records, in: name, time)
        for shared in zone.shares.values {
            for user in shared.members.keys { seen.insert(Judge.Removal(user: user, zone: name)) }
        }
        highest = max(highest, zone.lastChange)
    }

    private mutating func judge(
        _ version: Version,
        of record: String,
        in zone: ZoneName,
        above floor: UInt64,
        _ time: Int64
    ) {
        if version.change <= floor {
            accuse("c", "\(record) in \(zone) took number \(version.change), and \(floor) was committed before", time)
        }
        highest = max(highest, version.change)
        versions[zone, default: [:]][record, default: [:]][version.change] = version
        let home = Judge.Home(zone: zone, record: record)
        for (field, text) in version.fields where !text.isEmpty {
            let homes = attempted[text] ?? []
            // What is moved was written where it came from.
            if !homes.contains(where: { $0.record == record && $0.zone.owner == zone.owner }) {
                accuse("i", "\(record) in \(zone) holds \(text) in \(field), which nobody wrote there", time)
            }
            if refused[text]?.contains(home) == true {
                accuse("g", "\(record) in \(zone) holds \(text) in \(field), which was refused", time)
            }
        }
    }

    /// What is only ever written together is read together.
    private mutating func judgeGroup(_ records: [String: Version], in zone: ZoneName, _ time: Int64) {
        let texts = Step.groupNames.map { records[$0]?.fields["a"] }
        if Set(texts).count > 1 { accuse("g", "an atomic batch is half there in \(zone): \(texts)", time) }
    }

    /// A family is in one zone, whole, however often it moves.
    private mutating func judgeFamily(_ time: Int64) {
        var places: [String: [ZoneName]] = [:]
        for (name, zone) in truth.zones {
            for record in Step.familyNames where zone.records[record] != nil {
                places[record, default: []].append(name)
            }
        }
        isFamilyWhole = isFamilyWhole || places.count == Step.familyNames.count
        guard isFamilyWhole else { return }
        for (record, zones) in places where zones.count > 1 {
            accuse("g", "\(record) was moved, and is in \(zones.map(\.description).sorted()) now", time)
        }
        if Set(places.values.map { $0.map(\.description) }).count > 1 || places.count < Step.familyNames.count {
            accuse("g", "a family was torn apart by a move: \(places)", time)
        }
    }
}

extension Step {
    static let groupNames = ["g0", "g1", "g2"]
    static let familyNames = ["f0", "f1", "f2"]
}
