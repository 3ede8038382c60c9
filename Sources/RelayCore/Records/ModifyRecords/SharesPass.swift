import Records
import Wire

/// The third pass: shares.
///
/// A record is in at most one share, and a participant's records stay within what the participant may write. Both are
/// decided for the state after the write. See Wire.md, "Shares", and Writes.md, "Shares".
extension ModifyRecords {
    struct CheckedShares {
        /// The operations that the pass refuses.
        var refused: [Int: RelayError] = [:]
        /// The share in which each of `Validated.newAliases` holds; empty if any operation is refused.
        var aliasShares: [Int64?] = []
        /// The write's budget after this pass.
        var budget: ReferenceBudget
        var unread = Unread()
    }

    /// Refuses operations that would put a record into two shares or out of a participant's reach.
    ///
    /// Judges the operations in their order; a refused one no longer counts for those after it. `refused` are those of
    /// the references pass in this turn.
    static func checkShares(
        of write: Validated,
        without refused: [Int: RelayError],
        beside cascade: Cascade,
        over before: StateBefore,
        budget: ReferenceBudget
    ) throws(RelayError) -> CheckedShares {
        guard let sharing = before.sharing else { return CheckedShares(budget: budget) }
        var write = write
        write.refuse(refused)
        var pass = SharesPass(write: write, before: before, sharing: sharing, budget: budget)
        for change in write.writes {
            guard let outcome = change.outcome, pass.write.isLive(outcome), !change.record.isDeleted else { continue }
            let error: RelayError? =
                if let root = write.newShares[outcome]?.root, cascade.roots[root] != nil { .nothingToShare } else {
                    try pass.violation(of: change.record, at: outcome)
                }
            if let error { pass.refuse(outcome, error) }
        }
        if pass.checked.refused.isEmpty, !write.newAliases.isEmpty { try pass.placeAliases() }
        return pass.checked
    }
}

private struct SharesPass {
    /// The share that covers a record after this write.
    private enum Cover: Hashable {
        case none
        case stored(Int64)
        /// A share that this write creates, identified by its root.
        case new(root: String)
    }

    private(set) var write: ModifyRecords.Validated
    private let before: ModifyRecords.StateBefore
    private let sharing: SharingState
    private(set) var checked: ModifyRecords.CheckedShares
    /// Indexes into `write.writes` by record name.
    private let places: [String: Int]
    /// The roots of the shares that this write creates.
    private var newRoots: Set<String>
    /// The covers found so far; valid until another operation is refused.
    private var covers: [String: Cover] = [:]

    init(
        write: ModifyRecords.Validated,
        before: ModifyRecords.StateBefore,
        sharing: SharingState,
        budget: ModifyRecords.ReferenceBudget
    ) {
        self.write = write
        self.before = before
        self.sharing = sharing
        checked = ModifyRecords.CheckedShares(budget: budget)
        var places: [String: Int] = [:]
        for (place, change) in write.writes.enumerated() { places[change.record.name] = place }
        self.places = places
        newRoots = write.newRoots
    }

    mutating func refuse(_ outcome: Int, _ error: RelayError) {
        write.refuse(outcome, error)
        checked.refused[outcome] = error
        covers = [:]
        newRoots = write.newRoots
    }

    mutating func violation(of record: StoredRecord, at outcome: Int) throws(RelayError) -> RelayError? {
        if let view = sharing.zone.view {
            // An administrator of a share may lack write permission; their rights were checked before.
            if record.isShare { return nil }
            if !view.isPartial { return view.permission(in: nil) == .readWrite ? nil : .accessDenied }
            guard record.shareReference?.record == nil else { return nil }
            if case .stored(let share) = try cover(of: record.name), view.permission(in: share) == .readWrite {
                return nil
            }
            return .accessDenied
        }
        if let root = write.newShares[outcome]?.root { return try violation(ofNewRoot: root) }
        guard sharing.zone.sharing == .hierarchies || !write.newShares.isEmpty, let parent = record.parent,
            parent != before.records[record.name]?.parent
        else { return nil }
        guard try cover(of: parent) != .none else { return nil }
        if record.shareReference?.record != nil || newRoots.contains(record.name) { return .alreadyShared }
        // A record that does not exist yet has nothing below it but what this write puts there.
        guard let current = before.records[record.name], !current.isDeleted else { return nil }
        return hasShareRoot(below: record.name) ? .alreadyShared : nil
    }

    private mutating func violation(ofNewRoot root: String) throws(RelayError) -> RelayError? {
        let written = places[root].map { write.writes[$0] }
        if let written, !write.isLive(written) { return .nothingToShare }
        guard let record = written?.record ?? sharing.others[root] ?? before.records[root] else {
            return .nothingToShare
        }
        if sharing.covers[root] != nil { return .alreadyShared }
        if let parent = record.parent, try cover(of: parent) != .none { return .alreadyShared }
        return hasShareRoot(below: root) ? .alreadyShared : nil
    }

    /// Finds the shares of the aliases' records, which say who sees the records under these names.
    mutating func placeAliases() throws(RelayError) {
        for alias in write.newAliases {
            var share: Int64?
            if write.isLive(alias.outcome),
                case .stored(let found) = try cover(of: write.request.operations[alias.outcome].name)
            {
                share = found
            }
            checked.aliasShares.append(share)
        }
    }

    private mutating func hasShareRoot(below name: String) -> Bool {
        if let known = before.hasShareRootBelow[name] { return known }
        checked.unread.shareRootsBelow.insert(name)
        return false
    }

    private mutating func cover(of name: String) throws(RelayError) -> Cover {
        var path: [String] = []
        var next = name
        while covers[next] == nil {
            path.append(next)
            let stored = sharing.covers[next].map { Cover.stored($0) } ?? Cover.none
            // In a cycle of parents, no record is below a root.
            covers[next] = Cover.none
            if newRoots.contains(next) {
                covers[next] = .new(root: next)
                break
            }
            guard let change = places[next].map({ write.writes[$0] }), write.isLive(change) else {
                if try !formsCycle(from: next, to: path.dropLast()) { covers[next] = stored }
                break
            }
            guard !change.record.isDeleted else { break }
            if change.record.shareReference?.record != nil {
                covers[next] = stored
                break
            }
            guard let parent = change.record.parent else { break }
            next = parent
        }
        let found = covers[next] ?? Cover.none
        for name in path { covers[name] = found }
        return found
    }

    /// Returns whether an unchanged record is a descendant of a record that this write moves below it.
    ///
    /// If so, the stored cover of the record is no longer valid.
    private mutating func formsCycle(
        from name: String,
        to moved: some Collection<String>
    ) throws(RelayError) -> Bool {
        let hasMoved = moved.contains { name in
            guard let old = before.records[name], !old.isDeleted, let place = places[name] else { return false }
            return old.parent != write.writes[place].record.parent
        }
        guard hasMoved else { return false }
        var (next, seen): (String?, Set<String>) = (name, [])
        while let name = next, seen.insert(name).inserted {
            if moved.contains(name) { return true }
            if let place = places[name], write.isLive(write.writes[place]) {
                let record = write.writes[place].record
                next = record.isDeleted ? nil : record.parent
                continue
            }
            checked.budget.add()
            try checked.budget.check()
            if let record = before.records[name] {
                next = record.parent
            } else if let parent = before.parents[name] {
                next = parent
            } else {
                checked.unread.ancestors.insert(name)
                next = nil
            }
        }
        return false
    }
}

extension ModifyRecords.Validated {
    /// The roots of the shares that this write creates.
    fileprivate var newRoots: Set<String> { Set(newShares.filter { isLive($0.key) }.compactMap(\.value.root)) }
}
