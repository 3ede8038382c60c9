import Records

/// The rules of shared hierarchies that apply after the operations of a write have been decided individually.
extension ModifyRecords.Decision {
    /// Rejects operations that would put a record into two shares or out of a participant's reach.
    mutating func refuseOffences(in writer: any StoreWriter, beside cascade: Cascade) throws(RelayError) {
        guard let state = sharing else { return }
        let places = places
        while true {
            let failures = outcomes.count { $0.error != nil }
            var covers = Covers(places: places, newRoots: newRoots)
            for write in writes {
                guard let outcome = write.outcome, isLive(outcome), !write.record.isDeleted else { continue }
                let root = newShares[outcome]?.root
                let error: RelayError? =
                    if let root, cascade.roots[root] != nil { .nothingToShare } else {
                        try offence(of: write.record, at: outcome, state, &covers, in: writer)
                    }
                guard let error else { continue }
                refuse(outcome, error)
                covers = Covers(places: places, newRoots: newRoots)
            }
            if outcomes.count(where: { $0.error != nil }) == failures || request.isAtomic { break }
        }
    }

    /// Ends the shares of deleted roots; marks and unmarks share roots.
    mutating func keepShares(in writer: any StoreWriter) throws(RelayError) {
        guard let state = sharing, !(request.isAtomic && hasFailed) else { return }
        if !newAliases.isEmpty {
            var covers = Covers(places: places, newRoots: newRoots)
            newAliases = try placed(newAliases) { name throws(RelayError) in
                if case .stored(let share) = try cover(of: name, state, &covers, in: writer) { share } else { nil }
            }
        }
        try endShares(state, in: writer)
        markRoots(state)
    }

    // MARK: Covering shares

    /// The share that covers a record after this write.
    private enum Cover: Hashable {
        case none
        case stored(Int64)
        /// A share that this write creates, identified by its root.
        case new(root: String)
    }

    /// The covers found so far; valid until another operation is rejected.
    private struct Covers {
        /// Indexes into `writes` by record name.
        let places: [String: Int]
        let newRoots: Set<String>
        var known: [String: Cover] = [:]
    }

    private func cover(
        of name: String,
        _ state: SharingState,
        _ covers: inout Covers,
        in writer: any StoreWriter
    ) throws(RelayError) -> Cover {
        var way: [String] = []
        var next = name
        while covers.known[next] == nil {
            way.append(next)
            let stored = state.covers[next].map { Cover.stored($0) } ?? Cover.none
            // In a cycle of parents, no record is below a root.
            covers.known[next] = Cover.none
            if covers.newRoots.contains(next) {
                covers.known[next] = .new(root: next)
                break
            }
            guard let write = covers.places[next].map({ writes[$0] }), isLive(write) else {
                if try !closesCircle(from: next, to: way.dropLast(), covers.places, state.zone.whole, in: writer) {
                    covers.known[next] = stored
                }
                break
            }
            guard !write.record.isDeleted else { break }
            if write.record.shareMark?.record != nil {
                covers.known[next] = stored
                break
            }
            guard let parent = write.record.parent else { break }
            next = parent
        }
        let found = covers.known[next] ?? Cover.none
        for name in way { covers.known[name] = found }
        return found
    }

    /// Returns whether an unchanged record is a descendant of a record that this write moves below it.
    ///
    /// If so, the stored cover of the record is no longer valid.
    private func closesCircle(
        from name: String,
        to moved: some Collection<String>,
        _ places: [String: Int],
        _ zone: Zone,
        in writer: any StoreWriter
    ) throws(RelayError) -> Bool {
        let hasMoved = moved.contains { name in
            guard let old = before[name], !old.isDeleted, let place = places[name] else { return false }
            return old.parent != writes[place].record.parent
        }
        guard hasMoved else { return false }
        var (next, seen): (String?, Set<String>) = (name, [])
        while let name = next, seen.insert(name).inserted {
            if moved.contains(name) { return true }
            if let place = places[name], isLive(writes[place]) {
                next = writes[place].record.isDeleted ? nil : writes[place].record.parent
            } else {
                try bondCount.step()
                next = try writer.records(named: [name], in: zone)[name]?.parent
            }
        }
        return false
    }

    /// Indexes into `writes` by record name.
    private var places: [String: Int] {
        var places: [String: Int] = [:]
        for (place, write) in writes.enumerated() { places[write.record.name] = place }
        return places
    }

    func isLive(_ write: (outcome: Int?, record: StoredRecord)) -> Bool {
        write.outcome.map { outcomes[$0].error == nil } ?? true
    }

    /// The roots of the shares that this write creates.
    private var newRoots: Set<String> { Set(newShares.filter { isLive($0.key) }.compactMap(\.value.root)) }

    private func offence(
        of record: StoredRecord,
        at outcome: Int,
        _ state: SharingState,
        _ covers: inout Covers,
        in writer: any StoreWriter
    ) throws(RelayError) -> RelayError? {
        if let view = state.zone.view {
            // An administrator of a share may lack write permission; their rights were checked before.
            if record.isShare { return nil }
            if !view.isPartial { return view.permission(in: nil) == .readWrite ? nil : .accessDenied }
            guard record.shareMark?.record == nil else { return nil }
            let cover = try cover(of: record.name, state, &covers, in: writer)
            if case .stored(let share) = cover, view.permission(in: share) == .readWrite { return nil }
            return .accessDenied
        }
        if let root = newShares[outcome]?.root { return try offence(ofNewRoot: root, state, &covers, in: writer) }
        guard state.zone.sharing == .hierarchies || !newShares.isEmpty, let parent = record.parent,
            parent != before[record.name]?.parent
        else { return nil }
        let above = try cover(of: parent, state, &covers, in: writer)
        guard above != .none else { return nil }
        let isRoot = record.shareMark?.record != nil || covers.newRoots.contains(record.name)
        if isRoot { return .alreadyShared }
        return try writer.hasShareRoot(below: record.name, in: state.zone) ? .alreadyShared : nil
    }

    private func offence(
        ofNewRoot root: String,
        _ state: SharingState,
        _ covers: inout Covers,
        in writer: any StoreWriter
    ) throws(RelayError) -> RelayError? {
        let written = covers.places[root].map { writes[$0] }
        if let written, !isLive(written) { return .nothingToShare }
        guard let record = written?.record ?? state.others[root] ?? before[root] else { return .nothingToShare }
        if state.covers[root] != nil { return .alreadyShared }
        if let parent = record.parent, try cover(of: parent, state, &covers, in: writer) != .none {
            return .alreadyShared
        }
        return try writer.hasShareRoot(below: root, in: state.zone) ? .alreadyShared : nil
    }

    // MARK: Roots and their shares

    /// Deletes the shares of deleted roots, and unmarks roots whose shares are deleted, which ends their links.
    private mutating func endShares(_ state: SharingState, in writer: any StoreWriter) throws(RelayError) {
        let named = writes.filter { $0.record.isDeleted && isLive($0) }.map(\.record.name)
        let gone = Set(named + followers.filter { !$0.isKept }.map(\.name))
        guard !gone.isEmpty else { return }
        let shared = named.compactMap { before[$0] } + sharedFollowers.values
        let orphans = shared.compactMap { $0.shareMark?.record }.filter { !gone.contains($0) }
        for (name, record) in try writer.records(named: orphans, in: state.zone.whole) where !record.isDeleted {
            before[name] = record
            writes.append((nil, tombstone(of: record)))
        }
        for record in shared {
            guard let root = record.sharing?.root, !gone.contains(root) else { continue }
            change(root, state) { $0.share = nil }
        }
    }

    private mutating func markRoots(_ state: SharingState) {
        for (outcome, share) in newShares where outcomes[outcome].error == nil {
            guard let root = share.root, case .saved(let record) = outcomes[outcome] else { continue }
            change(root, state) { $0.shareMark = ShareMark(shortGUID: share.shortGUID, record: record.name) }
        }
    }

    /// Changes a record that this write saves, or adds an unchanged record to the write.
    private mutating func change(_ name: String, _ state: SharingState, _ body: (inout StoredRecord) -> Void) {
        if let index = writes.lastIndex(where: { $0.record.name == name && isLive($0) }) {
            body(&writes[index].record)
            if let outcome = writes[index].outcome { outcomes[outcome] = .saved(writes[index].record) }
            return
        }
        guard var record = state.others[name] ?? before[name], !record.isDeleted else { return }
        before[name] = record
        body(&record)
        record.modified = stamp
        writes.append((nil, record))
    }
}
