import Records
import Wire

extension ModifyRecords {
    /// The state before the commit, as far as it has been read: the input of all passes.
    ///
    /// A class because all passes get it and it has about fifteen collections and strings.
    final class StateBefore {
        /// What the caller sees of the zone.
        enum Sight {
            case everything
            /// A participant sees shared hierarchies.
            case hierarchies
            /// A caller of the public database sees the records that their roles may read.
            case readableRecords
        }

        /// The zone as the caller sees it.
        let zone: Zone
        let sight: Sight
        let schema: Schema
        /// The records that the request names, tombstones included, by stored name.
        let records: [String: StoredRecord]
        /// The remaining storage of the zone's owner; `nil` if nothing is limited.
        let room: RemainingQuota?
        /// The operations that are already completed, if this request is a repeat.
        let earlier: IdempotencyRecord?
        /// `nil` if sharing is not involved.
        let sharing: SharingState?
        /// The user, time and device of the write.
        let stamp: StoredRecord.Stamp

        // Filled by `WriteReads.fill`.

        /// Whether each asset is stored.
        fileprivate(set) var hasAsset: [AssetHash: Bool] = [:]
        /// How many of the zone's records use each asset, counting up to 2.
        fileprivate(set) var assetUses: [AssetHash: Int] = [:]
        /// Whether each name denotes a live record that the caller does not see.
        fileprivate(set) var isInvisible: [String: Bool] = [:]
        /// The parents of records that the request does not name.
        fileprivate(set) var parents: [String: String?] = [:]
        /// Whether a share root is below each record.
        fileprivate(set) var hasShareRootBelow: [String: Bool] = [:]

        init(
            zone: Zone,
            sight: Sight,
            schema: Schema,
            records: [String: StoredRecord],
            room: RemainingQuota?,
            earlier: IdempotencyRecord?,
            sharing: SharingState?,
            stamp: StoredRecord.Stamp
        ) {
            self.zone = zone
            self.sight = sight
            self.schema = schema
            self.records = records
            self.room = room
            self.earlier = earlier
            self.sharing = sharing
            self.stamp = stamp
        }
    }

    /// What a pass has needed and `StateBefore` does not contain yet.
    ///
    /// A pass reads nothing. It names here what it lacks, and continues in order to name as much as possible at once;
    /// its other results are then void.
    struct Unread {
        var assets: Set<AssetHash> = []
        var assetUses: Set<AssetHash> = []
        /// Names that may denote records which the caller does not see.
        var visibility: Set<String> = []
        /// Records whose parents, grandparents and so on are needed.
        var ancestors: Set<String> = []
        var shareRootsBelow: Set<String> = []

        var isEmpty: Bool {
            assets.isEmpty && assetUses.isEmpty && visibility.isEmpty && ancestors.isEmpty && shareRootsBelow.isEmpty
        }
    }

    /// Limits the references and parents that a write examines, over all turns of the loop.
    struct ReferenceBudget {
        private var count = 0
        let limit: Int

        init(limit: Int) { self.limit = limit }

        var isExceeded: Bool { count > limit }

        mutating func add(_ examined: Int = 1) { count += examined }

        func check() throws(RelayError) {
            guard isExceeded else { return }
            throw RelayError(
                .badRequest,
                "Too many records refer to those that this request deletes. "
                    + "Delete fewer at once, beginning with some of the referring records.",
                fineCode: .limitExceeded
            )
        }
    }

    /// All that a write reads before it decides.
    ///
    /// Every call of the store takes a set, so that a store on another machine needs one round trip for it. Most writes
    /// need only what `init` reads.
    struct WriteReads {
        let before: StateBefore
        var budget: ReferenceBudget
        private let request: ModifyRecords
        let writer: any StoreWriter
        /// The targets of the request's references, without their fields; `nil` until they are read.
        var targets: [String: StoredRecord]?

        /// Reads what the request alone says: its records, the remaining quota, the shares that cover its records, and
        /// what its prepared fields refer to.
        init(for request: ModifyRecords, in zone: Zone, from writer: any StoreWriter) throws(RelayError) {
            self.request = request
            self.writer = writer
            budget = ReferenceBudget(limit: request.rules.limits.referencesPerWrite)
            let records = try writer.records(named: request.operations.map(\.name), in: zone.whole)
            let isRestricted = request.database.scope == .public && !request.database.isOperators
            before = StateBefore(
                zone: zone,
                sight: zone.view?.isPartial == true ? .hierarchies : isRestricted ? .readableRecords : .everything,
                schema: try writer.schema,
                records: records,
                room: try request.rules.limits.quota.room(in: zone.id, by: request.database.scope, from: writer),
                earlier: try request.earlier(in: writer),
                sharing: try Self.sharing(for: request, in: zone, records, from: writer),
                stamp: StoredRecord.Stamp(
                    at: zone.stamp(at: request.now),
                    by: request.database.caller.user ?? Zone.publicOwner,
                    device: DeviceFingerprint(deviceID: request.database.caller.deviceID)
                )
            )
            _ = try fill(Unread(neededBy: request, over: before))
        }

        /// Returns what the write needs to know about sharing; `nil` if sharing is not involved.
        private static func sharing(
            for request: ModifyRecords,
            in zone: Zone,
            _ records: [String: StoredRecord],
            from writer: any StoreWriter
        ) throws(RelayError) -> SharingState? {
            let operations = request.operations
            guard zone.view != nil || zone.sharing != .nothing || operations.contains(where: \.concernsSharing) else {
                return nil
            }
            let roots = operations.compactMap { $0.record.share?.root?.name }
            let others = Set(roots + records.values.compactMap { $0.sharing?.root }).subtracting(records.keys)
            let parents = operations.compactMap { $0.record.parent ?? nil } + records.values.compactMap(\.parent)
            let names = Set(records.keys).union(others).union(parents)
            return SharingState(
                zone: zone,
                others: others.isEmpty ? [:] : try writer.records(named: others.sorted(), in: zone.whole),
                covers: zone.sharing == .hierarchies ? try writer.shares(covering: names.sorted(), in: zone) : [:]
            )
        }

        /// Reads what a pass has lacked; returns `false` if it has lacked nothing.
        func fill(_ unread: Unread) throws(RelayError) -> Bool {
            guard !unread.isEmpty else { return false }
            if !unread.assets.isEmpty {
                let stored = writer.storedAssets(among: unread.assets)
                for hash in unread.assets { before.hasAsset[hash] = stored.contains(hash) }
            }
            if !unread.assetUses.isEmpty {
                let uses = try writer.assetUses(of: unread.assetUses, in: before.zone)
                for hash in unread.assetUses { before.assetUses[hash] = uses[hash] ?? 0 }
            }
            if !unread.visibility.isEmpty {
                let invisible = try invisible(among: unread.visibility)
                for name in unread.visibility { before.isInvisible[name] = invisible.contains(name) }
            }
            try readAncestors(of: unread.ancestors)
            if !unread.shareRootsBelow.isEmpty {
                let found = try writer.recordsAboveShareRoots(among: unread.shareRootsBelow.sorted(), in: before.zone)
                for name in unread.shareRootsBelow { before.hasShareRootBelow[name] = found.contains(name) }
            }
            return true
        }

        /// Returns the names of existing records that the caller does not see.
        func invisible(among names: Set<String>) throws(RelayError) -> Set<String> {
            guard before.sight != .everything else { return [] }
            var found: Set<String> = []
            var rest = names.sorted()[...]
            while !rest.isEmpty {
                let part = Array(rest.prefix(200))
                rest = rest.dropFirst(part.count)
                let records = try writer.records(named: part, in: before.zone.whole, withFields: false)
                if let view = before.zone.view {
                    let covers = try writer.shares(covering: part, in: before.zone)
                    for (name, record) in records
                    where !record.isDeleted && view.permission(in: covers[name]) == Share.Permission.none {
                        found.insert(name)
                    }
                } else {
                    for (name, record) in records
                    where !request.database.rights(to: record, in: before.schema).contains(.read) {
                        found.insert(name)
                    }
                }
            }
            return found
        }

        /// Reads the parents of records, level by level, up to records that the request names.
        private func readAncestors(of names: Set<String>) throws(RelayError) {
            var level = Array(names)
            while !level.isEmpty {
                let records = try writer.records(named: level, in: before.zone.whole, withFields: false)
                var above: Set<String> = []
                for name in level {
                    let parent = records[name]?.parent
                    before.parents[name] = .some(parent)
                    if let parent, before.records[parent] == nil, before.parents[parent] == nil { above.insert(parent) }
                }
                guard before.parents.count <= budget.limit else { return }
                level = Array(above)
            }
        }
    }
}

extension ModifyRecords.Unread {
    /// What validation will need according to the fields that were prepared in advance.
    fileprivate init(neededBy request: ModifyRecords, over before: ModifyRecords.StateBefore) {
        for operation in request.operations {
            guard let fields = operation.prepared?.fields else { continue }
            if fields.bringsAssets {
                let brought = fields.assetHashes
                assets.formUnion(brought)
                guard before.room != nil else { continue }
                assetUses.formUnion(brought)
                if let record = before.records[operation.name] {
                    assetUses.formUnion(QuotaLedger.assets(of: record).keys)
                }
            }
            guard before.sight == .hierarchies else { continue }
            for (_, reference) in fields.references where reference.action == .deleteSelf {
                guard visibility.count < ModifyRecords.Validation.maxResolvedReferences else { break }
                visibility.insert(reference.recordName)
            }
        }
    }
}

extension FieldPreparation {
    /// Whether the request contains assets for the record.
    var bringsAssets: Bool { !freshAssets.isEmpty || !unprovenAssets.isEmpty }

    /// The assets in the fields.
    fileprivate var assetHashes: [AssetHash] {
        links.flatMap { $0.entry.value.assets.compactMap { AssetHash(checksum: $0.fileChecksum) } }
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
