extension Judge.State {
    mutating func note(_ line: String) {
        for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        if trace.count > 600 { trace.removeFirst(300) }
        trace.append(line)
    }

    mutating func accuse(_ invariant: Character, _ what: String, _ time: Int64) {
        note("\(time) VIOLATION \(invariant): \(what)")
        // The first ones say why; of the rest nobody learns anything.
        if violations.count < 8 { violations.append("invariant \(invariant): \(what)") }
    }

    /// A commit has made the store so.
    mutating func take(_ found: Truth, _ time: Int64) {
        let before = truth
        truth = found
        let floor = highest
        for (name, zone) in found.zones.sorted(by: { $0.key.description < $1.key.description }) {
            guard
                before.zones[name]?.lastChange != zone.lastChange || before.zones[name]?.identity != zone.identity
                    || before.zones[name]?.records != zone.records
            else { continue }
            let old = before.zones[name]?.identity == zone.identity ? before[name] : [:]
            for (record, version) in zone.records where old[record]?.change != version.change {
                judge(version, of: record, in: name, above: floor, time)
            }
            for (record, change) in zone.tombstones where before.zones[name]?.tombstones[record] != change {
                if change <= floor {
                    accuse("c", "the deletion of \(record) took number \(change) after \(floor)", time)
                }
                highest = max(highest, change)
            }
            for record in old.keys where zone.records[record] == nil && zone.tombstones[record] == nil {
                accuse("d", "\(record) in \(name) is gone without a tombstone", time)
            }
            judgeGroup(zone.records, in: name, time)
            snapshots[name, default: []].append((zone.lastChange, zone.records))
            highest = max(highest, zone.lastChange)
        }
        highest = max(highest, found.lastChange)
        for name in before.zones.keys where found.zones[name] == nil { snapshots[name] = nil }
        judgeFamily(time)
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
        committed[zone, default: [:]][record, default: []].insert(version.change)
        for (field, text) in version.fields where !text.isEmpty && !attempted.contains(text) {
            accuse("i", "\(record) in \(zone) holds \(text) in \(field), which nobody wrote", time)
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

    /// The zone's records when its last change was at or before this one.
    func snapshot(of zone: ZoneName, at position: UInt64) -> [String: Version]? {
        snapshots[zone]?.last { $0.position <= position }?.records
    }
}

extension Step {
    static let groupNames = ["g0", "g1", "g2"]
    static let familyNames = ["f0", "f1", "f2"]
}
