package import Records
package import RelayCore
import Wire

/// What a transaction keeps about shared zones until its commit.
package struct SharingState {
    /// Whom to notify besides the owners of the zones.
    package var audience = CommitAudience()
    /// The shares that cover records of a zone, as far as the write that runs has read them; `nil` after each write.
    fileprivate var knownCovers: (zone: Int64, covers: [String: Int64?])?
    /// `nil` until it is needed, and after each write.
    fileprivate var rootSearch: ShareRootSearch?
    /// Bytes of fields kept for notices, of records that were replaced or have moved.
    fileprivate var noticeBytes = 0

    private static let noticeBytesLimit = 64 << 20

    package init() {}

    /// Forgets what was read for the write that has ended.
    package mutating func endWrite() {
        rootSearch = nil
        knownCovers = nil
    }

    /// Keeps the shares that cover these records; a name that `found` lacks is covered by none.
    package mutating func keep(covers found: [String: Int64], of names: [String], in zone: Int64) {
        let isFull = knownCovers.map { $0.covers.count > 10_000 } ?? false
        if isFull || knownCovers?.zone != zone { knownCovers = (zone, [:]) }
        for name in names { knownCovers?.covers[name] = .some(found[name]) }
    }

    /// Returns the known covers of a zone's records, and forgets what the records' write makes wrong.
    package mutating func takeCovers(in zone: Int64) -> [String: Int64?] {
        defer { endWrite() }
        return knownCovers.flatMap { $0.zone == zone ? $0.covers : nil } ?? [:]
    }

    /// Returns a record for the commit's notices, without its fields if those of all records would take too much
    /// memory.
    ///
    /// One deletion may remove gigabytes. Subscriptions that need fields then miss some of it; notices are hints.
    package mutating func recordForNotices(_ record: StoredRecord) -> StoredRecord {
        noticeBytes += record.fields.count
        guard noticeBytes > Self.noticeBytesLimit else { return record }
        var record = record
        record.fields = FieldsJSON.empty
        return record
    }
}

/// A transaction that writes records of zones that may be shared.
package protocol SharingWriter: StoreWriter, NumberSource, AnyObject {
    associatedtype Rows: SharingRows

    var sharingRows: Rows { get }
    var sharing: SharingState { get set }
    var hasWatchedTypes: Bool { get }
    /// Whether query subscriptions watch a record type.
    func isWatched(_ type: String) -> Bool
    /// Returns what makes tokens of an owner's zones.
    func token(of owner: UserID) throws -> (_ identity: UInt64, _ position: UInt64) -> ChangeToken
    /// Fails the transaction if the write that runs did not name this owner.
    func requireOwner(_ owner: UserID) throws(RelayError)
    /// Runs `body`; after an error nothing of the transaction may be committed.
    func attempt<Result>(_ body: () throws -> Result) throws(RelayError) -> Result
}

extension SharingWriter {
    /// Updates the sharing tables after records were put, and sets how much of the zone is shared.
    ///
    /// `zone` is the owner's view of the zone. Returns the greatest change number that entries of hierarchies have.
    package func updateSharing(
        for records: [StoredRecord],
        replacing replaced: [String: StoredRecord],
        covers: [String: Int64?],
        in zone: inout Zone
    ) throws -> UInt64 {
        let changes = records.compactMap { record -> ShareUpdate.Change? in
            guard record.isShare else { return nil }
            let old = replaced[record.name]?.sharing
            let new = ShareUpdate.written(record.sharing, over: old)
            guard old != nil || new != nil else { return nil }
            return ShareUpdate.Change(name: record.name, change: record.change, old: old, new: new)
        }
        var newHierarchies: [ShareKey] = []
        if !changes.isEmpty {
            let update = try ShareUpdate.run(
                for: changes,
                in: &zone,
                rows: sharingRows,
                numbers: self,
                token: try token(of: zone.id.owner)
            )
            sharing.audience.add(update.recipients, of: zone.id)
            newHierarchies = update.newHierarchies
        }
        guard zone.sharing == .hierarchies else { return 0 }
        let update = try HierarchyUpdate.run(
            for: records,
            replacing: replaced,
            newHierarchies: newHierarchies,
            // A share that has ended covers nothing any more.
            covers: changes.isEmpty ? covers : [:],
            in: zone,
            rows: sharingRows,
            numbers: self
        )
        sharing.audience.add(update, of: zone.id)
        if hasWatchedTypes { try noteViews(of: update, records, in: zone) }
        return update.latest.values.max() ?? 0
    }

    /// Keeps what query subscriptions need to know of records that are in hierarchies or were.
    private func noteViews(of update: HierarchyUpdate, _ records: [StoredRecord], in zone: Zone) throws {
        for record in records where isWatched(record.type) {
            if let change = update.changes[record.change] { sharing.audience.add(change, of: record.change) }
        }
        // In parts, since the fields of all of them may not fit into memory.
        var rest = update.moved.filter { isWatched($0.record.type) }[...]
        while !rest.isEmpty {
            let part = rest.prefix(64)
            rest = rest.dropFirst(part.count)
            let records = try self.records(named: part.map(\.record.name), in: zone, withFields: true)
            for (outline, change) in part {
                guard let record = records[outline.name] else { continue }
                let kept = sharing.recordForNotices(record)
                sharing.audience.add(change, of: kept, in: zone.id)
            }
        }
    }

    package func show(_ aliases: [NewRecordAlias], of zone: Zone) throws(RelayError) {
        try requireOwner(zone.id.owner)
        try attempt {
            let aliases = aliases.map { ShareAlias(share: $0.share, shown: $0.shown, kept: $0.kept) }
            try sharingRows.show(aliases, of: zone, numbers: self)
        }
    }

    package func recordsAboveShareRoots(among names: [String], in zone: Zone) throws(RelayError) -> Set<String> {
        try attempt {
            var search =
                try sharing.rootSearch.flatMap { $0.zone == zone.number ? $0 : nil }
                ?? ShareRootSearch(in: zone, rows: sharingRows)
            // A second reference would make each change copy it.
            sharing.rootSearch = nil
            defer { sharing.rootSearch = search }
            return try search.recordsAboveRoots(among: names, rows: sharingRows)
        }
    }
}
