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
        if operation.kind.isDelete, record.shareMark?.record != nil { return .read }
        return sharing?.permission(record.name) == .readWrite ? [.read, .create, .write] : .read
    }

    /// Whether the caller is an administrator of the share.
    private func isAdministrator(of record: StoredRecord) -> Bool {
        guard let user = request.database.caller.user, let own = record.sharing?.participant(user) else { return false }
        return own.role == .administrator && own.hasAccepted
    }

    /// Returns whether the record's parent stays unchanged: a participant cannot see or move what is above the root.
    func keepsParent(_ record: StoredRecord?) -> Bool {
        sharing?.zone.view != nil && record?.shareMark?.record != nil
    }

    func newLink(for operation: ModifyRecords.Operation) -> String? {
        guard operation.record.createsShortGUID, let edit = request.shareEdit else { return nil }
        return ShareMark(shortGUID: edit.newID()).text
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
        record.shareMark = ShareMark(shortGUID: share.shortGUID, record: record.name)
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
        guard record.shareMark?.record == nil, !newShares.values.contains(where: { $0.root == root.name }) else {
            throw .shareExists
        }
        guard sharing?.zone.sharing != .everything, !newShares.values.contains(where: { $0.root == nil }) else {
            throw .alreadyShared
        }
        return try edit.make(input, root: root.name, shortGUID: record.shareMark?.shortGUID)
    }
}
