import Records
import Wire

extension ModifyRecords {
    /// An order of operations in which shares follow the records that may be their roots; `nil` if no operation saves a
    /// share.
    var orderWithSharesLast: [Int]? {
        guard operations.contains(where: { $0.record.recordType == Share.recordType }) else { return nil }
        let shares = operations.indices.filter { operations[$0].record.recordType == Share.recordType }
        return operations.indices.filter { operations[$0].record.recordType != Share.recordType } + shares
    }

    /// Returns what the write needs to know about sharing; `nil` if sharing is not involved.
    func sharingState(
        of zone: Zone,
        before: [String: StoredRecord],
        in writer: any StoreWriter
    ) throws(RelayError) -> SharingState? {
        guard zone.view != nil || zone.sharing != .nothing || operations.contains(where: \.concernsSharing) else {
            return nil
        }
        let roots = operations.compactMap { $0.record.share?.root?.name }
        let others = Set(roots + before.values.compactMap { $0.sharing?.root }).subtracting(before.keys)
        let parents = operations.compactMap { $0.record.parent ?? nil } + before.values.compactMap(\.parent)
        let names = Set(before.keys).union(others).union(parents)
        return SharingState(
            zone: zone,
            others: others.isEmpty ? [:] : try writer.records(named: others.sorted(), in: zone.whole),
            covers: zone.sharing == .hierarchies ? try writer.shares(covering: names.sorted(), in: zone) : [:]
        )
    }
}

extension ModifyRecords.Operation {
    fileprivate var concernsSharing: Bool { record.createsShortGUID || record.recordType == Share.recordType }
}

/// The state of sharing in a zone before a write.
struct SharingState {
    let zone: Zone
    /// Roots of shares that the request does not name.
    let others: [String: StoredRecord]
    /// The share that covers each record involved, including parents.
    let covers: [String: Int64]

    /// Returns the caller's permission for an existing record; `.none` for a record that they cannot see.
    func permission(_ name: String) -> Share.Permission {
        zone.view.map { $0.permission(in: covers[name]) } ?? .readWrite
    }
}

extension Zone {
    /// The zone without its view, for reading records that a participant cannot see.
    var whole: Zone {
        var zone = self
        zone.view = nil
        return zone
    }
}

// MARK: Rights

extension ModifyRecords.Decision {
    /// Throws if records cannot be shared in this database or zone.
    ///
    /// See Errors.md, "Database scopes".
    func checkSharing() throws(RelayError) {
        switch request.database.scope {
        case .public: throw .badRequest("Records of the public database cannot be shared.")
        case .shared: throw .accessDenied
        case .private:
            guard !request.zone.isDefault else {
                throw .badRequest("Records of the default zone cannot be shared. Move them to a zone of their own.")
            }
        }
    }

    /// Returns a participant's rights to a record; `nil` in other databases.
    ///
    /// Every participant may delete the share's record: that is how a participant leaves a share.
    func sharedRights(to record: StoredRecord, by operation: ModifyRecords.Operation) -> Rights? {
        guard sharing?.zone.view != nil else { return nil }
        if record.isShare { return operation.kind.isDelete || isAdministrator(of: record) ? [.read, .write] : .read }
        // Deleting the root would end the share, which only the owner may do.
        if operation.kind.isDelete, record.shareReference?.record != nil { return .read }
        return sharing?.permission(record.name) == .readWrite ? [.read, .create, .write] : .read
    }

    /// Whether the caller is an administrator of the share.
    private func isAdministrator(of record: StoredRecord) -> Bool {
        guard let user = request.database.caller.user, let own = record.sharing?.participant(user) else { return false }
        return own.role == .administrator && own.hasAccepted
    }

    /// Returns whether the record's parent stays unchanged: a participant cannot see or move what is above the root.
    func keepsParent(_ record: StoredRecord?) -> Bool {
        sharing?.zone.view != nil && record?.shareReference?.record != nil
    }

    func newLink(for operation: ModifyRecords.Operation) -> String? {
        guard operation.record.createsShortGUID, let edit = request.shareEdit else { return nil }
        return ShareReference(shortGUID: edit.newID()).text
    }

    // MARK: Operations on share records

    mutating func decideShare(
        _ operation: ModifyRecords.Operation,
        over current: StoredRecord?
    ) throws(RelayError) {
        guard operation.kind.isDelete else { return try saveShare(operation, over: current) }
        guard request.database.scope == .shared, var record = current, let user = request.database.caller.user else {
            return delete(operation, current)
        }
        record.sharing?.participants.removeAll { $0.user == user }
        record.modified = stamp
        writes.append((nil, record))
        outcomes.append(.deleted(name: operation.name, type: record.type))
    }

    private mutating func saveShare(
        _ operation: ModifyRecords.Operation,
        over current: StoredRecord?
    ) throws(RelayError) {
        if current.map({ !isAdministrator(of: $0) }) ?? true { try checkSharing() }
        guard let edit = request.shareEdit else { throw .accessDenied }
        let place = outcomes.count
        let share: Share
        if let known = current?.sharing {
            share = try edit.update(known, operation.record.share ?? ShareInput())
        } else {
            share = try newShare(operation, edit)
        }
        try save(operation, over: current)
        guard var record = writes.last?.record else { return }
        record.sharing = share
        record.shareReference = ShareReference(shortGUID: share.shortGUID, record: record.name)
        writes[writes.count - 1].record = record
        outcomes[place] = .saved(record)
        if current == nil { newShares[place] = share }
    }

    private func newShare(_ operation: ModifyRecords.Operation, _ edit: ShareEdit) throws(RelayError) -> Share {
        let input = operation.record.share ?? ShareInput()
        guard let root = input.root else {
            guard operation.name == Share.zoneWideName else { throw .nothingToShare }
            guard sharing?.zone.sharing != .hierarchies, newShares.isEmpty else { throw .alreadyShared }
            return try edit.make(input, root: nil, shortGUID: nil)
        }
        guard operation.name != Share.zoneWideName else {
            throw .badRequest(
                "\(Share.zoneWideName) is the name for the share of a whole zone, which has no forRecord."
            )
        }
        let written = writes.last { $0.record.name == root.name && isLive($0) }
        let stored = sharing?.others[root.name] ?? before[root.name]
        guard let record = written?.record ?? stored, !record.isDeleted, !record.isShare else { throw .nothingToShare }
        if written == nil, let tag = root.changeTag, tag != record.changeTag {
            throw RelayError(.conflict, "client oplock error: the record to share has changed")
        }
        guard record.shareReference?.record == nil, !newShares.values.contains(where: { $0.root == root.name }) else {
            throw .shareExists
        }
        guard sharing?.zone.sharing != .everything, !newShares.values.contains(where: { $0.root == nil }) else {
            throw .alreadyShared
        }
        return try edit.make(input, root: root.name, shortGUID: record.shareReference?.shortGUID)
    }
}

/// The rules of shared hierarchies that apply after the operations of a write have been decided individually.
extension ModifyRecords.Decision {
    /// Rejects operations that would put a record into two shares or out of a participant's reach.
    mutating func rejectSharingViolations(in writer: any StoreWriter, beside cascade: Cascade) throws(RelayError) {
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
                        try sharingViolation(of: write.record, at: outcome, state, &covers, in: writer)
                    }
                guard let error else { continue }
                reject(outcome, error)
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
        var path: [String] = []
        var next = name
        while covers.known[next] == nil {
            path.append(next)
            let stored = state.covers[next].map { Cover.stored($0) } ?? Cover.none
            // In a cycle of parents, no record is below a root.
            covers.known[next] = Cover.none
            if covers.newRoots.contains(next) {
                covers.known[next] = .new(root: next)
                break
            }
            guard let write = covers.places[next].map({ writes[$0] }), isLive(write) else {
                if try !formsCycle(from: next, to: path.dropLast(), covers.places, state.zone.whole, in: writer) {
                    covers.known[next] = stored
                }
                break
            }
            guard !write.record.isDeleted else { break }
            if write.record.shareReference?.record != nil {
                covers.known[next] = stored
                break
            }
            guard let parent = write.record.parent else { break }
            next = parent
        }
        let found = covers.known[next] ?? Cover.none
        for name in path { covers.known[name] = found }
        return found
    }

    /// Returns whether an unchanged record is a descendant of a record that this write moves below it.
    ///
    /// If so, the stored cover of the record is no longer valid.
    private func formsCycle(
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
                try referenceCounter.step()
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

    private func sharingViolation(
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
            guard record.shareReference?.record == nil else { return nil }
            let cover = try cover(of: record.name, state, &covers, in: writer)
            if case .stored(let share) = cover, view.permission(in: share) == .readWrite { return nil }
            return .accessDenied
        }
        if let root = newShares[outcome]?.root {
            return try sharingViolation(ofNewRoot: root, state, &covers, in: writer)
        }
        guard state.zone.sharing == .hierarchies || !newShares.isEmpty, let parent = record.parent,
            parent != before[record.name]?.parent
        else { return nil }
        let above = try cover(of: parent, state, &covers, in: writer)
        guard above != .none else { return nil }
        let isRoot = record.shareReference?.record != nil || covers.newRoots.contains(record.name)
        if isRoot { return .alreadyShared }
        return try writer.hasShareRoot(below: record.name, in: state.zone) ? .alreadyShared : nil
    }

    private func sharingViolation(
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
        let gone = Set(named + cascadedDeletions.filter { !$0.isKept }.map(\.name))
        guard !gone.isEmpty else { return }
        let shared = named.compactMap { before[$0] } + sharedCascadedDeletions.values
        let orphans = shared.compactMap { $0.shareReference?.record }.filter { !gone.contains($0) }
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
            change(root, state) { $0.shareReference = ShareReference(shortGUID: share.shortGUID, record: record.name) }
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

/// Deletions by a participant who sees one hierarchy, of records that are referenced from outside it.
///
/// An error would disclose the hidden references, and deleting the records would break what the owner relies on. So the
/// records disappear from the hierarchy, for the caller and everyone else who sees it, while the owner keeps them
/// outside of it. Apple's documentation covers VALIDATE references but not who can see them.
extension ModifyRecords.Decision {
    /// Returns the indexes of the operations whose deletions take effect only in the caller's view.
    func deletionsOnlyInView(_ cascade: Cascade) throws(RelayError) -> Set<Int> {
        guard hides != nil else { return [] }
        var kept: Set<Int> = []
        var waiting = cascade.blockingReferences.compactMap { cascade.roots[$0.target] }
        if waiting.isEmpty { return [] }
        // A record that stays also blocks the deletion of the records that it references.
        let names = Dictionary(grouping: cascade.roots.keys) { cascade.roots[$0] }
        while let root = waiting.popLast() {
            guard isLive(root), kept.insert(root).inserted else { continue }
            for reference in (names[root] ?? []).flatMap({ cascade.enforcedReferences[$0] ?? [] }) {
                guard let other = cascade.roots[reference.target], try keepsReference(reference) else { continue }
                waiting.append(other)
            }
        }
        return kept
    }

    /// Whether a record that stays keeps the reference: visible records lose their parents.
    private func keepsReference(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard reference.kind == .parent, let hides else { return true }
        return try hides(reference.source)
    }

    /// Collects the cascading deletions, and takes the records that the owner keeps out of the hierarchy.
    mutating func carryOut(_ cascade: Cascade, keeping kept: Set<Int>) throws(RelayError) {
        for name in cascade.cascadedDeletions {
            let isKept = cascade.roots[name].map(kept.contains) ?? false
            if isKept, let hides, try hides(name) { continue }
            cascadedDeletions.append(CascadedDeletion(name: name, isKept: isKept))
            if !isKept { sharedCascadedDeletions[name] = cascade.sharedCascadedDeletions[name] }
        }
        guard !kept.isEmpty else { return }
        for index in writes.indices {
            guard let outcome = writes[index].outcome, writes[index].record.isDeleted, kept.contains(outcome),
                let record = before[writes[index].record.name]
            else { continue }
            writes[index] = (nil, removedFromView(record))
        }
    }

    func removedFromView(_ record: StoredRecord) -> StoredRecord {
        var record = record
        record.update {
            $0.parent = nil
            $0.modified = stamp
        }
        return record
    }
}
