import Records
package import RelayCore

/// The hierarchy that contained a record before a change, and the one that does after it; `nil` means none.
package struct HierarchyChange: Hashable, Sendable {
    package var before: Int64?
    package var after: Int64?

    package init(before: Int64?, after: Int64?) {
        self.before = before
        self.after = after
    }
}

/// Decides which entries of shared hierarchies a write creates, moves and removes.
///
/// A root is covered by its share, and every other record by the share of its parent. Reads the rows in sets: one call
/// for the records that were put, and one for each level below those that enter or leave a share.
package struct HierarchyUpdate {
    /// The change of each record that was put, by its change number.
    package private(set) var changes: [UInt64: HierarchyChange] = [:]
    /// The records that moved only because one above them did.
    package private(set) var moved: [(record: RecordOutline, change: HierarchyChange)] = []
    /// The greatest change number used in each share.
    package private(set) var latest: [Int64: UInt64] = [:]

    private let zone: Zone
    /// The records that were put, in their order and by name.
    private let put: [StoredRecord]
    private let records: [String: StoredRecord]
    private let replaced: [String: StoredRecord]
    /// The share that covers each record by its entry before this update, as far as it has been read.
    private var before: [String: Int64?]
    /// The share that covers each record after this update, where it was put or moved.
    private var after: [String: Int64?] = [:]
    /// The records that were not put and get another share, in the order in which they were found.
    private var below: [RecordOutline] = []
    /// The new hierarchies that records enter at their own change numbers.
    private var entered: [String: Int64] = [:]

    private init(
        _ records: [StoredRecord],
        replacing replaced: [String: StoredRecord],
        covers: [String: Int64?],
        in zone: Zone
    ) {
        self.zone = zone
        self.replaced = replaced
        put = records
        self.records = Dictionary(records.map { ($0.name, $0) }) { $1 }
        before = covers
    }

    /// Updates the entries after records were put, whose rows have been written.
    ///
    /// `replaced` are the states of the records before, and `newHierarchies` the shares that were created with them.
    /// `covers` are the shares that cover records of the zone by their entries, as far as they have been read. Each record
    /// that moves with one above it takes a change number.
    package static func run(
        for records: [StoredRecord],
        replacing replaced: [String: StoredRecord],
        newHierarchies: [ShareKey],
        covers: [String: Int64?],
        in zone: Zone,
        rows: some SharingRows,
        numbers: some NumberSource
    ) throws -> HierarchyUpdate {
        var update = HierarchyUpdate(records, replacing: replaced, covers: covers, in: zone)
        try update.readCovers(rows)
        for share in newHierarchies { try update.enter(share, rows) }
        try update.coverPutRecords(rows)
        try update.coverDescendants(rows)
        try update.write(to: rows, numbers)
        return update
    }

    // MARK: Records that were put

    /// Returns whether the record existed before.
    ///
    /// One that did not had no entry, and no children either, since a parent exists.
    private func existed(_ record: StoredRecord) -> Bool { replaced[record.name].map { !$0.isDeleted } ?? false }

    private mutating func readCovers(_ rows: some SharingRows) throws {
        var names: Set<String> = []
        for record in put {
            if existed(record) { names.insert(record.name) } else { before[record.name] = .some(nil) }
            if !record.isDeleted, let parent = record.parent { names.insert(parent) }
        }
        let unknown = names.filter { before[$0] == nil }.sorted()
        guard !unknown.isEmpty else { return }
        let found = try rows.covers(of: unknown, in: zone.number)
        for name in unknown { before[name] = .some(found[name]) }
    }

    private mutating func coverPutRecords(_ rows: some SharingRows) throws {
        let links = put.compactMap { $0.isDeleted ? nil : $0.linkOfRoot }
        let shares = links.isEmpty ? [:] : try rows.shares(withLinks: links)
        let circular = try recordsBelowThemselves(rows)
        var known: [String: Int64?] = [:]
        for record in put {
            var path: [String] = []
            var (next, share): (StoredRecord?, Int64?) = (record, nil)
            while let current = next, !current.isDeleted {
                if let found = known[current.name] {
                    share = found
                    break
                }
                // If parents form a cycle, no record of it is below a root.
                known[current.name] = .some(nil)
                path.append(current.name)
                if let link = current.linkOfRoot {
                    if let found = shares[link], found.root != nil { share = found.number }
                    break
                }
                guard let parent = current.parent, !circular.contains(current.name) else { break }
                next = records[parent]
                if next == nil { share = after[parent] ?? before[parent] ?? nil }
            }
            for name in path { known[name] = .some(share) }
        }
        for record in put { after[record.name] = .some(known[record.name] ?? nil) }
    }

    /// Finds the records whose parents are below them and were not put.
    ///
    /// Only a record that gets another parent can close such a cycle.
    private func recordsBelowThemselves(_ rows: some SharingRows) throws -> Set<String> {
        func hasNewParent(_ record: StoredRecord) -> Bool {
            record.parent != nil && record.parent != replaced[record.name]?.parent
        }
        guard put.contains(where: { !$0.isDeleted && existed($0) && hasNewParent($0) }) else { return [] }
        let candidates = put.filter { !$0.isDeleted && ($0.parent.map { records[$0] == nil } ?? false) }
        let parents = Set(candidates.compactMap(\.parent)).sorted()
        guard !parents.isEmpty else { return [] }
        let links = try rows.ancestors(of: parents, in: zone.number)
        let above = Dictionary(links.map { ($0.name, $0.parent) }) { $1 }
        return Set(
            candidates.map(\.name).filter { name in
                var (next, seen): (String?, Set<String>) = (records[name]?.parent, [])
                while let current = next, current != name, seen.insert(current).inserted { next = above[current] }
                return next == name
            }
        )
    }

    // MARK: Records below them

    /// The number of records whose children are read together.
    private static let portion = 500

    /// Visits the children of records, portion by portion.
    private func visitChildren(
        of names: [String],
        _ rows: some SharingRows,
        _ visit: (RecordOutline) -> Void
    ) throws {
        for start in stride(from: 0, to: names.count, by: Self.portion) {
            let part = Array(names[start..<min(start + Self.portion, names.count)])
            try rows.children(of: part, in: zone.number).forEach(visit)
        }
    }

    private mutating func cover(_ record: RecordOutline, with share: Int64?) {
        if records[record.name] == nil, after[record.name] == nil {
            before[record.name] = .some(record.cover)
            below.append(record)
        }
        after[record.name] = .some(share)
    }

    /// Enters the records of a hierarchy that has just been shared.
    ///
    /// They keep their own change numbers in its feed, since no client has a token of that feed yet.
    private mutating func enter(_ share: ShareKey, _ rows: some SharingRows) throws {
        guard let root = share.root else { return }
        if records[root] == nil {
            guard let outline = try rows.outlines(of: [root], in: zone.number).first else { return }
            cover(outline, with: share.number)
            entered[root] = share.number
        } else if records[root]?.isDeleted == true {
            return
        }
        var (level, seen): ([String], Set<String>) = ([root], [root])
        while !level.isEmpty {
            var next: [RecordOutline] = []
            try visitChildren(of: level, rows) { if seen.insert($0.name).inserted { next.append($0) } }
            for child in next {
                cover(child, with: share.number)
                entered[child.name] = share.number
            }
            level = next.map(\.name)
        }
    }

    /// A record whose children get its share.
    private struct Step: Hashable {
        var name: String
        var share: Int64?
    }

    /// Covers everything below the records that enter or leave a share, level by level.
    private mutating func coverDescendants(_ rows: some SharingRows) throws {
        var level = put.compactMap { record -> Step? in
            guard existed(record), let share = after[record.name], before[record.name] != share else { return nil }
            return Step(name: record.name, share: share)
        }
        var seen = Set(level)
        while !level.isEmpty {
            // A record that was put may have been reached from one above it since: that one's share counts.
            var shares: [String: Int64?] = [:]
            for step in level where after[step.name] == .some(step.share) { shares[step.name] = .some(step.share) }
            var found: [(child: RecordOutline, share: Int64?)] = []
            try visitChildren(of: shares.keys.sorted(), rows) { child in
                // The root of another share keeps what is below it.
                guard !child.isRoot, let share = child.parent.flatMap({ shares[$0] }) else { return }
                found.append((child, share))
            }
            level = []
            for (child, share) in found {
                cover(child, with: share)
                let step = Step(name: child.name, share: share)
                if seen.insert(step).inserted { level.append(step) }
            }
        }
    }

    // MARK: Entries

    private mutating func write(to rows: some SharingRows, _ numbers: some NumberSource) throws {
        let isByOwner = put.allSatisfy { $0.modified.by == zone.id.owner }
        var entries: [HierarchyEntry] = []
        var moves: [(name: String, change: HierarchyChange)] = []
        func change(of name: String) -> HierarchyChange {
            HierarchyChange(before: before[name] ?? nil, after: after[name] ?? nil)
        }
        /// `number` is the record's change number, `position` its place in the feeds.
        func place(_ name: String, _ type: String, _ number: UInt64, at position: UInt64, _ change: HierarchyChange) {
            if change.before != change.after { moves.append((name, change)) }
            if let old = change.before, old != change.after {
                let state = state(of: name, after: change.after, isByOwner: isByOwner)
                entries.append(.init(share: old, name: name, change: position, state: state, type: type))
            }
            guard let new = change.after else { return }
            let record = number == position ? nil : number
            entries.append(.init(share: new, name: name, change: position, state: .present, record: record))
        }
        for record in put {
            let change = change(of: record.name)
            changes[record.change] = change
            place(record.name, record.type, record.change, at: record.change, change)
        }
        for record in below {
            let change = change(of: record.name)
            guard change.before != change.after else { continue }
            let keepsNumber = change.before == nil && entered[record.name] == change.after
            let position = keepsNumber ? record.change : numbers.takeChangeNumber()
            place(record.name, record.type, record.change, at: position, change)
            if !keepsNumber { moved.append((record, change)) }
        }
        guard !entries.isEmpty else { return }
        try rows.write(entries, in: zone.number)
        for entry in entries { latest[entry.share] = max(latest[entry.share] ?? 0, entry.change) }
        try rows.advance(latest)
        if !moves.isEmpty { try expireTokens(after: moves, rows, numbers) }
    }

    /// Returns what participants of a hierarchy see of a record that leaves it.
    ///
    /// Only the owner can take a live record out of every hierarchy. If a participant takes a record out, they deleted it,
    /// and the relay kept it because of a reference that they cannot see: it must look like any deletion.
    private func state(of name: String, after share: Int64?, isByOwner: Bool) -> HierarchyEntry.State {
        if let record = records[name], record.isDeleted { return record.movedTo == nil ? .deleted : .outOfSight }
        return share != nil || isByOwner ? .outOfSight : .deleted
    }

    /// Expires the tokens of users for whom a moved record's name means another record while this one is not visible.
    private func expireTokens(
        after moves: [(name: String, change: HierarchyChange)],
        _ rows: some SharingRows,
        _ numbers: some NumberSource
    ) throws {
        let aliases = try rows.aliases(showing: moves.map(\.name), in: zone.number)
        guard !aliases.isEmpty, let last = latest.values.max() else { return }
        let changes = Dictionary(moves.map { ($0.name, $0.change) }) { $1 }
        var others: [Int64: Set<Int64>] = [:]
        for alias in aliases {
            let change = changes[alias.shown]
            others[alias.share, default: []].formUnion([change?.before, change?.after].compactMap(\.self))
        }
        try rows.expireTokens(ofUsersIn: others, of: zone, at: last, numbers)
    }
}

extension StoredRecord {
    /// The link of the share of which the record is the root or the share record.
    fileprivate var linkOfRoot: String? {
        shareReference.flatMap { $0.record == nil ? nil : $0.shortGUID }
    }
}
