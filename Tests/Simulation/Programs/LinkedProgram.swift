import Foundation
import GRDB
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The main entity of the linked mirrors, with every kind of link to its own type and to boxes.
struct Knot: SyncedRecord, Equatable {
    var id = RecordName()
    var a: String?
    var b: String?
    var box = ToOne<Box>(inverse: "knots")
    var above = ToOne<Knot>(inverse: "below")
    /// Deleting a knot deletes these too.
    var below = ToMany<Knot>(inverse: "above", deleteRule: .cascade)
    var lid = ToOne<Box>(inverse: "lid")
    var next = ToOne<Knot>(inverse: "previous")
    var previous = ToOne<Knot>(inverse: "next")
    var tags = ToMany<Box>(inverse: "tagged")
    var friends = ToMany<Knot>(inverse: "friendOf")
    var friendOf = ToMany<Knot>(inverse: "friends")

    init() {}
    init(id: RecordName) { self.id = id }
}

/// The target of three kinds of link.
struct Box: SyncedRecord, Equatable {
    var id = RecordName()
    var knots = ToMany<Knot>(inverse: "box")
    var lid = ToOne<Knot>(inverse: "lid")
    var tagged = ToMany<Knot>(inverse: "tags")

    init() {}
    init(id: RecordName) { self.id = id }
}

/// A counter of all devices, merged by a property resolver.
struct Score: SyncedRecord, Equatable {
    var id = RecordName()
    /// A number, stored as text because the checker compares only texts.
    var count = "0"

    init() {}
    init(id: RecordName) { self.id = id }
}

/// A link to create or to remove; missing objects are created.
struct Relation: Hashable, Sendable {
    enum Kind: Hashable, Sendable, CaseIterable {
        case box, above, lid, next, tag, friend
        /// Whether the target is a box.
        var isToBox: Bool { [.box, .lid, .tag].contains(self) }
    }

    var kind: Kind
    /// A knot.
    var from: Int
    /// A knot or a box.
    var to: Int
    var isEnd: Bool
}

/// An application with a mirror of the user's private database, whose objects have every kind of link.
final class LinkedProgram: ErasingProgram, @unchecked Sendable {
    // Unchecked because of `device`: only the simulation's thread accesses it, between two steps.
    private(set) var device: TestDevice
    private let userName: String
    private let checker: Checker
    private let policy: MergePolicy
    private let container = Mutex<MirroredContainer?>(nil)
    /// The increments of each counter on this device.
    private(set) var counts: [String: Int] = [:]

    init(_ device: TestDevice, _ policy: MergePolicy, userName: String, checker: Checker) {
        self.device = device
        self.policy = policy
        self.checker = checker
        self.userName = userName
        begin(on: device)
    }

    func releaseStores() {
        let ended = container.withLock { container in
            defer { container = nil }
            return container
        }
        ended?.abandon()
    }

    func begin(on device: TestDevice) {
        self.device = device
        releaseStores()
        let (checker, policy) = (checker, policy)
        Task(executorPreference: device.process) { [weak self] in
            do {
                let model = MirrorModel(Knot.self, Box.self, Score.self)
                let made = try await device.mirror(of: model) { store in
                    store.cloud?.mergePolicy = policy
                    store.cloud?.propertyResolvers["Score.count"] = { base, mine, theirs in
                        func number(_ value: DatabaseValue) -> Int {
                            String.fromDatabaseValue(value).flatMap { Int($0) } ?? 0
                        }
                        return "\(number(mine) + number(theirs) - number(base))".databaseValue
                    }
                }
                self?.container.withLock { $0 = made }
            } catch {
                checker.reportViolation("k", "\(device.name) cannot open its store: \(error)")
            }
        }
    }

    // MARK: Changes

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        change { context in
            try Self.make(Knot.self, record, context)
            try context.edit(Knot.self, RecordName(record)) { knot in
                if field == "a" { knot.a = value } else { knot.b = value }
            }
        }
    }

    /// Deletes the box of this name in zone 1, otherwise the knot.
    func delete(_ zone: Int, _ record: String) {
        change { context in
            if zone == 1, try context.object(Box.self, Self.box(record)) != nil {
                try context.delete(Box.self, id: Self.box(record))
            } else if try context.object(Knot.self, RecordName(record)) != nil {
                try context.delete(Knot.self, id: RecordName(record))
            }
        }
    }

    func relate(_ relation: Relation) {
        let (from, to) = (RecordName("r\(relation.from)"), "r\(relation.to)")
        change { context in
            let knot = try Self.make(Knot.self, from.text, context)
            let box = relation.kind.isToBox ? try Self.make(Box.self, Self.box(to).text, context) : Box()
            let other = relation.kind.isToBox ? Knot() : try Self.make(Knot.self, to, context)
            let isEnd = relation.isEnd
            switch relation.kind {
            case .box: try context.edit(Knot.self, from) { $0.box.target = isEnd ? nil : box.id }
            case .above: try context.edit(Knot.self, from) { $0.above.target = isEnd ? nil : other.id }
            case .lid: try context.edit(Knot.self, from) { $0.lid.target = isEnd ? nil : box.id }
            case .next: try context.edit(Knot.self, from) { $0.next.target = isEnd ? nil : other.id }
            case .tag where isEnd: try context.unlink(knot, \.tags, box)
            case .tag: try context.link(knot, \.tags, box)
            case .friend where isEnd: try context.unlink(knot, \.friends, other)
            case .friend: try context.link(knot, \.friends, other)
            }
        }
    }

    /// Increments all known counters, which are never deleted.
    ///
    /// The device's own counter is created if it is missing.
    func count() {
        change { context in
            try Self.make(Score.self, "score\(device.name)", context)
            for score in try context.fetch(Score.self) {
                try context.edit(Score.self, score.id) { $0.count = "\((Int($0.count) ?? 0) + 1)" }
                counts[score.id.text, default: 0] += 1
            }
        }
    }

    private static func box(_ record: String) -> RecordName { RecordName("box-\(record)") }

    @discardableResult
    private static func make<T: SyncedRecord>(_ type: T.Type, _ name: String, _ context: MirrorContext) throws -> T {
        if let known = try context.object(T.self, RecordName(name)) { return known }
        var new = T()
        new.id = RecordName(name)
        try context.insert(new)
        return new
    }

    private func change(_ body: (MirrorContext) throws -> Void) {
        guard let container = container.withLock({ $0 }) else { return }
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        do {
            try body(context)
            try context.save()
        } catch {
            checker.reportViolation("a", "\(device.name) cannot save: \(error)")
        }
    }

    func erase() { device.erase(container.withLock { $0 }, checker) }
    func resetKeys() { device.resetKeys(container.withLock { $0 }, checker) }
    func deleteZone() { device.deleteMirroredZone(checker) }

    func retry() {}
    func unsent() -> [String] { [] }

    // MARK: Local content

    private var zone: ZoneName { ZoneName(owner: userName, name: "mirrored") }

    /// Objects with their texts and with the target of each link.
    func localRecords() -> [ZoneName: [String: [String: String]]]? {
        guard let context = container.withLock({ $0 })?.newBackgroundContext() else { return nil }
        var records: [String: [String: String]] = [:]
        do {
            for knot in try context.fetch(Knot.self) { records[knot.id.text] = try Self.fields(of: knot, context) }
            for box in try context.fetch(Box.self) {
                var fields: [String: String] = [:]
                fields["lid"] = box.lid.target?.text
                fields["knots"] = Self.list(try context.related(to: box, \.knots).map(\.id.text))
                fields["tagged"] = Self.list(try context.related(to: box, \.tagged).map(\.id.text))
                records[box.id.text] = fields
            }
            for score in try context.fetch(Score.self) { records[score.id.text] = ["count": score.count] }
        } catch {
            checker.note("\(device.name) cannot be read: \(error)")
            return nil
        }
        return [zone: records]
    }

    private static func fields(of knot: Knot, _ context: MirrorContext) throws -> [String: String] {
        var fields: [String: String] = [:]
        fields["a"] = knot.a
        fields["b"] = knot.b
        fields["box"] = knot.box.target?.text
        fields["above"] = knot.above.target?.text
        fields["lid"] = knot.lid.target?.text
        fields["next"] = knot.next.target?.text
        fields["previous"] = knot.previous.target?.text
        fields["below"] = list(try context.related(to: knot, \.below).map(\.id.text))
        fields["tags"] = list(try context.related(to: knot, \.tags).map(\.id.text))
        fields["friends"] = list(try context.related(to: knot, \.friends).map(\.id.text))
        fields["friendOf"] = list(try context.related(to: knot, \.friendOf).map(\.id.text))
        return fields
    }

    private static func list(_ names: some Collection<String>) -> String? {
        names.isEmpty ? nil : names.sorted().joined(separator: " ")
    }

    // MARK: Expected content

    /// The same, computed from the relay's records: a link counts if both of its ends exist, and a one-to-one link only
    /// if both ends name each other.
    func expected(from snapshot: StoreSnapshot) -> [ZoneName: [String: Version]] {
        let records = self.records(in: snapshot)
        var (all, many): ([String: [String: String]], [String: [String: [String]]]) = ([:], [:])
        for (name, fields) in records where fields["CD_entityName"] != nil {
            var own = fields.filter { ["CD_a", "CD_b", "CD_count"].contains($0.key) }
            for (link, back) in Self.singles {
                guard let target = fields["CD_\(link)"], let there = records[target] else { continue }
                if let back {
                    if there["CD_\(back)"] == name { own["CD_\(link)"] = target }
                } else {
                    own["CD_\(link)"] = target
                    many[target, default: [:]][link == "box" ? "knots" : "below", default: []].append(name)
                }
            }
            all[name] = Dictionary(uniqueKeysWithValues: own.map { (String($0.key.dropFirst(3)), $0.value) })
        }
        for pair in records.values.compactMap(Pair.init) where pair.ends.allSatisfy({ all[$0] != nil }) {
            many[pair.ends[0], default: [:]][pair.links[0], default: []].append(pair.ends[1])
            many[pair.ends[1], default: [:]][pair.links[1], default: []].append(pair.ends[0])
        }
        for (name, lists) in many { for (link, ends) in lists { all[name]?[link] = Self.list(ends) } }
        return [zone: all.mapValues { Version(change: 0, fields: $0) }]
    }

    /// To-one links, with the inverse if that is a to-one link as well.
    private static let singles = [
        ("box", nil), ("above", nil), ("lid", "lid"), ("next", "previous"), ("previous", "next"),
    ]

    /// Pair records with a missing end; no program shows them, and a new object of that name would be linked by
    /// mistake.
    func orphans(in snapshot: StoreSnapshot) -> [String] {
        let records = self.records(in: snapshot)
        return records.filter { record in
            Pair(record.value).map { $0.ends.contains { records[$0] == nil } } ?? false
        }.map(\.key).sorted()
    }

    /// The values of the counters on the relay.
    func scores(in snapshot: StoreSnapshot) -> [String: Int] {
        records(in: snapshot).compactMapValues { $0["CD_count"].flatMap(Int.init) }
    }

    private func records(in snapshot: StoreSnapshot) -> [String: [String: String]] {
        let zones = snapshot.zones.keys.filter { $0.owner == userName && $0.name.hasPrefix("com.apple") }
        return zones.reduce(into: [:]) { $0.merge(snapshot[$1].mapValues(\.fields)) { $1 } }
    }
}

/// The record of a many-to-many link.
private struct Pair {
    var ends: [String]
    var links: [String]

    init?(_ fields: [String: String]) {
        guard let names = fields["CD_recordNames"], let relationships = fields["CD_relationships"] else { return nil }
        ends = names.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        links = relationships.split(separator: ":").map(String.init)
    }
}
