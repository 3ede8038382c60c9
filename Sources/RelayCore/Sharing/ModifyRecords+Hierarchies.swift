import Records

/// What the shares of a zone ask of a write, once its operations are decided each for itself.
extension ModifyRecords.Decision {
    /// Refuses what would put a record into two shares or out of a participant's reach; ends shares whose roots go; marks
    /// and unmarks roots.
    mutating func keepShares(in writer: any StoreWriter) throws(RelayError) {
        guard let state = sharing else { return }
        while true {
            let failures = outcomes.count { $0.error != nil }
            for write in writes {
                guard let outcome = write.outcome, outcomes[outcome].error == nil, !write.record.isDeleted else {
                    continue
                }
                if let error = try offence(of: write.record, at: outcome, state, in: writer) {
                    outcomes[outcome] = .failed(name: write.record.name, error, server: nil)
                }
            }
            if outcomes.count(where: { $0.error != nil }) == failures || request.isAtomic { break }
        }
        if request.isAtomic, hasFailed { return }
        if !newAliases.isEmpty {
            newAliases = placed(newAliases) { name in
                if case .stored(let share) = cover(of: name, state) { share } else { nil }
            }
        }
        try endShares(state, in: writer)
        markRoots(state)
    }

    // MARK: Which share covers what

    /// The share that covers a record after this write.
    private enum Cover: Hashable {
        case none
        case stored(Int64)
        /// One that this write makes, by its root.
        case new(root: String)
    }

    private func cover(of name: String, _ state: SharingState, _ seen: Set<String> = []) -> Cover {
        if isNewRoot(name) { return .new(root: name) }
        let written = writes.last { $0.record.name == name && isLive($0) }
        guard let record = written?.record else { return state.covers[name].map { .stored($0) } ?? .none }
        guard !record.isDeleted else { return .none }
        if record.shareMark?.record != nil { return state.covers[name].map { .stored($0) } ?? .none }
        guard let parent = record.parent, !seen.contains(name) else { return .none }
        return cover(of: parent, state, seen.union([name]))
    }

    func isLive(_ write: (outcome: Int?, record: StoredRecord)) -> Bool {
        write.outcome.map { outcomes[$0].error == nil } ?? true
    }

    private func isNewRoot(_ name: String) -> Bool {
        newShares.contains { $0.value.root == name && outcomes[$0.key].error == nil }
    }

    private func offence(
        of record: StoredRecord,
        at outcome: Int,
        _ state: SharingState,
        in writer: any StoreWriter
    ) throws(RelayError) -> RelayError? {
        if let view = state.zone.view {
            // Whoever manages a share need not be somebody who may write; who does was looked at before.
            if record.isShare { return nil }
            if !view.isPartial { return view.permission(in: nil) == .readWrite ? nil : .accessDenied }
            guard record.shareMark?.record == nil else { return nil }
            guard case .stored(let share) = cover(of: record.name, state), view.permission(in: share) == .readWrite
            else {
                return .accessDenied
            }
            return nil
        }
        if let root = newShares[outcome]?.root { return try offence(ofNewRoot: root, state, in: writer) }
        guard state.zone.sharing == .hierarchies || !newShares.isEmpty, let parent = record.parent,
            parent != before[record.name]?.parent
        else { return nil }
        let above = cover(of: parent, state)
        guard above != .none else { return nil }
        let isRoot = record.shareMark?.record != nil || isNewRoot(record.name)
        if isRoot { return .alreadyShared }
        return try writer.hasShareRoot(below: record.name, in: state.zone) ? .alreadyShared : nil
    }

    private func offence(
        ofNewRoot root: String,
        _ state: SharingState,
        in writer: any StoreWriter
    ) throws(RelayError) -> RelayError? {
        let written = writes.last { $0.record.name == root }
        if let written, !isLive(written) { return .nothingToShare }
        guard let record = written?.record ?? state.others[root] ?? before[root] else { return .nothingToShare }
        if state.covers[root] != nil { return .alreadyShared }
        if let parent = record.parent, cover(of: parent, state) != .none { return .alreadyShared }
        return try writer.hasShareRoot(below: root, in: state.zone) ? .alreadyShared : nil
    }

    // MARK: Roots and their shares

    /// A share goes with its root; a root without its share is one no more, and its link is dead.
    private mutating func endShares(_ state: SharingState, in writer: any StoreWriter) throws(RelayError) {
        let gone = writes.filter { $0.record.isDeleted && isLive($0) }.map(\.record.name)
        guard !gone.isEmpty else { return }
        let orphans = gone.compactMap { before[$0]?.shareMark?.record }.filter { !gone.contains($0) }
        for (name, record) in try writer.records(named: orphans, in: state.zone.whole) where !record.isDeleted {
            before[name] = record
            writes.append((nil, tombstone(of: record)))
        }
        for name in gone {
            guard let root = before[name]?.sharing?.root, !gone.contains(root) else { continue }
            change(root, state) { $0.share = nil }
        }
    }

    private mutating func markRoots(_ state: SharingState) {
        for (outcome, share) in newShares where outcomes[outcome].error == nil {
            guard let root = share.root, case .saved(let record) = outcomes[outcome] else { continue }
            change(root, state) { $0.shareMark = ShareMark(shortGUID: share.shortGUID, record: record.name) }
        }
    }

    /// Changes a record that this write saves, or adds it to those that it saves.
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
