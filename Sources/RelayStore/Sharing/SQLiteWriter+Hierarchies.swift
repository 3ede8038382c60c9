import GRDB
import Records
import RelayCore

/// Maintains the entries of shared hierarchies: the records in each, and their positions in its feed.
///
/// Costs a few statements for each record that is written in a zone with hierarchies, and one for each descendant that
/// enters or leaves a hierarchy with it; nothing in other zones.
extension SQLiteWriter {
    /// Updates the entries after these records were put; returns the greatest change number it used.
    func updateEntries(for records: [StoredRecord], in zone: Zone) throws -> UInt64 {
        var update = EntryUpdate(records: records, zone: zone)
        for (share, root) in newHierarchies { try enter(root, in: share, &update) }
        newHierarchies = []
        for record in records {
            let old = try cover(ofEntry: record.name, in: zone)
            let new = try cover(of: record.name, &update)
            try move(record.name, ofNumber: record.change, from: old, to: new, at: record.change, &update)
            if cache.watchedTypes[record.type] != nil {
                hierarchyChanges[record.change] = HierarchyChange(before: old, after: new)
            }
            if old != new { try moveDescendants(of: record.name, to: new, &update) }
        }
        for (share, change) in update.latest {
            let statement = try SQL("UPDATE share SET last_change = max(last_change, ?) WHERE id = ?", in: database)
            statement.bind(1, change)
            statement.bind(2, share)
            try statement.run()
            touchedShares[zone.id, default: []].insert(share)
        }
        return update.latest.values.max() ?? 0
    }

    /// The intermediate results of one update.
    private struct EntryUpdate {
        /// The records just put, by name.
        let records: [String: StoredRecord]
        let zone: Zone
        /// The share that covers each of those records, as far as it has been looked up.
        var covers: [String: Int64?] = [:]
        /// Whether any share of the zone shows records under other names; `nil` until it is needed.
        var hasAliases: Bool?
        /// The greatest change number used in each share.
        var latest: [Int64: UInt64] = [:]

        init(records: [StoredRecord], zone: Zone) {
            self.records = Dictionary(records.map { ($0.name, $0) }) { $1 }
            self.zone = zone
        }
    }

    private func mayShowAliases(_ update: inout EntryUpdate) throws -> Bool {
        let known = try update.hasAliases ?? hasAliases(in: update.zone)
        update.hasAliases = known
        return known
    }

    /// Enters the records of a hierarchy that has just been shared.
    ///
    /// They keep their own change numbers in its feed, since no client has a token of that feed yet.
    private func enter(_ root: String, in share: Int64, _ update: inout EntryUpdate) throws {
        var waiting = [root]
        var seen: Set<String> = []
        while let name = waiting.popLast() {
            guard seen.insert(name).inserted, let record = try liveRecord(named: name, in: update.zone) else {
                continue
            }
            try move(name, ofNumber: record.change, from: nil, to: share, at: record.change, &update)
            waiting += try children(of: name, in: update.zone)
        }
    }

    /// Returns the share that covers a record: its own for a root or a share record, otherwise that of its parent.
    private func cover(of name: String, _ update: inout EntryUpdate) throws -> Int64? {
        guard let record = update.records[name] else { return try cover(ofEntry: name, in: update.zone) }
        if let known = update.covers[name] { return known }
        // If parents form a cycle, none of them is below a root.
        update.covers[name] = .some(nil)
        var found: Int64?
        if !record.isDeleted {
            if let mark = record.shareReference, mark.record != nil {
                found = try hierarchy(ofLink: mark.shortGUID)
            } else if let parent = record.parent, try !isBelow(parent, name, update) {
                found = try cover(of: parent, &update)
            }
        }
        update.covers[name] = .some(found)
        return found
    }

    /// Returns whether the parent of a record that was put, and that was not put itself, is below that record.
    private func isBelow(_ parent: String, _ name: String, _ update: EntryUpdate) throws -> Bool {
        guard update.records[parent] == nil, try !children(of: name, in: update.zone).isEmpty else { return false }
        let statement = try SQL("SELECT parent FROM record WHERE zone = ? AND name = ?", in: database)
        var (next, seen): (String?, Set<String>) = (parent, [])
        while let above = next, seen.insert(above).inserted {
            if above == name { return true }
            defer { statement.reset() }
            statement.bind(1, update.zone.number)
            statement.bind(2, above)
            next = try statement.step() && !statement.isNull(0) ? statement.text(0) : nil
        }
        return false
    }

    private func hierarchy(ofLink guid: String) throws -> Int64? {
        let statement = try SQL("SELECT id FROM share WHERE guid = ? AND root IS NOT NULL", in: database)
        defer { statement.reset() }
        statement.bind(1, guid)
        return try statement.step() ? statement.int(0) : nil
    }

    func cover(ofEntry name: String, in zone: Zone) throws -> Int64? {
        let statement = try SQL(
            "SELECT share FROM share_entry WHERE name = ? AND zone = ? AND gone = 0",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, name)
        statement.bind(2, zone.number)
        return try statement.step() ? statement.int(0) : nil
    }

    /// Moves everything below a record that has entered or left a share, each record to a feed position of its own.
    private func moveDescendants(of name: String, to share: Int64?, _ update: inout EntryUpdate) throws {
        var waiting = try children(of: name, in: update.zone)
        var seen: Set<String> = [name]
        while let name = waiting.popLast() {
            guard seen.insert(name).inserted else { continue }
            // The root of another share keeps what is below it.
            guard let record = try liveRecord(named: name, in: update.zone), record.shareReference?.record == nil else {
                continue
            }
            let old = try cover(ofEntry: name, in: update.zone)
            if old != share {
                let change = update.records[name]?.change ?? takeChangeNumber()
                try move(name, ofNumber: record.change, from: old, to: share, at: change, &update)
                if cache.watchedTypes[record.type] != nil, update.records[name] == nil {
                    noteMove(of: record, HierarchyChange(before: old, after: share), in: update.zone)
                }
                update.covers[name] = .some(share)
            }
            waiting += try children(of: name, in: update.zone)
        }
    }

    func children(of name: String, in zone: Zone) throws -> [String] {
        let statement = try SQL(
            "SELECT source FROM reference WHERE zone = ? AND target = ? AND kind = 3",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, name)
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }

    /// Returns what participants of a hierarchy see of a record that leaves it.
    ///
    /// Only the owner can take a live record out of every hierarchy. If a participant takes a record out, they deleted it,
    /// and the relay kept it because of a reference that they cannot see: it must look like any deletion.
    private func state(of name: String, movedTo share: Int64?, _ update: EntryUpdate) -> EntryState {
        if let record = update.records[name], record.isDeleted {
            return record.movedTo == nil ? .deleted : .outOfSight
        }
        let isByOwner = update.records.values.allSatisfy { $0.modified.by == update.zone.id.owner }
        return share != nil || isByOwner ? .outOfSight : .deleted
    }

    /// Moves a record's entry from one share to another.
    ///
    /// `number` is the record's change number, `change` its position in the feeds.
    private func move(
        _ name: String,
        ofNumber number: UInt64,
        from old: Int64?,
        to new: Int64?,
        at change: UInt64,
        _ update: inout EntryUpdate
    ) throws {
        if old != new, try mayShowAliases(&update) {
            try recordMoved(name, from: old, to: new, in: update.zone, at: change)
        }
        if let old, old != new {
            let statement = try SQL(
                """
                UPDATE share_entry SET gone = ?5, change = ?1, record = NULL,
                    type = (SELECT r.type FROM record r WHERE r.name = ?3 AND r.zone = ?4)
                WHERE share = ?2 AND name = ?3
                """,
                in: database
            )
            statement.bind(1, change)
            statement.bind(2, old)
            statement.bind(3, name)
            statement.bind(4, update.zone.number)
            statement.bind(5, state(of: name, movedTo: new, update).rawValue)
            try statement.run()
            update.latest[old] = max(update.latest[old] ?? 0, change)
        }
        guard let new else { return }
        let statement = try SQL(
            "INSERT OR REPLACE INTO share_entry (share, name, zone, change, gone, record) VALUES (?, ?, ?, ?, 0, ?)",
            in: database
        )
        statement.bind(1, new)
        statement.bind(2, name)
        statement.bind(3, update.zone.number)
        statement.bind(4, change)
        if number != change { statement.bind(5, number) }
        try statement.run()
        update.latest[new] = max(update.latest[new] ?? 0, change)
    }
}
