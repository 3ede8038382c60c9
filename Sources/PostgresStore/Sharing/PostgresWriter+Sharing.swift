#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    /// Calls StoreKit's decisions about shares with the rows of this transaction.
    extension PostgresWriter {
        /// Updates the sharing tables after records were put, and sets how much of the zone is shared.
        ///
        /// `zone` is the owner's view of the zone. Returns the greatest change number that entries of hierarchies have.
        func updateSharing(
            for records: [StoredRecord],
            replacing replaced: [String: StoredRecord],
            covers: [String: Int64?],
            in zone: inout Zone
        ) throws -> UInt64 {
            let changes = records.compactMap { record -> ShareUpdate.Change? in
                guard record.isShare else { return nil }
                let old = replaced[record.name]?.sharing
                let new = record.sharing
                guard old != nil || new != nil else { return nil }
                return ShareUpdate.Change(name: record.name, change: record.change, old: old, new: new)
            }
            var newHierarchies: [ShareKey] = []
            if !changes.isEmpty {
                let update = try ShareUpdate.run(
                    for: changes,
                    in: &zone,
                    rows: rows,
                    numbers: self,
                    token: try token(of: zone.id.owner)
                )
                audience.add(update.recipients, of: zone.id)
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
                rows: rows,
                numbers: self
            )
            audience.add(update, of: zone.id)
            if !known.watchedTypes.isEmpty { try noteViews(of: update, records, in: zone) }
            return update.latest.values.max() ?? 0
        }

        /// Keeps what query subscriptions need to know of records that are in hierarchies or were.
        private func noteViews(of update: HierarchyUpdate, _ records: [StoredRecord], in zone: Zone) throws {
            for record in records where known.watchedTypes.contains(record.type) {
                if let change = update.changes[record.change] { audience.add(change, of: record.change) }
            }
            // In parts, since the fields of all of them may not fit into memory.
            var rest = update.moved.filter { known.watchedTypes.contains($0.record.type) }[...]
            while !rest.isEmpty {
                let part = rest.prefix(128)
                rest = rest.dropFirst(part.count)
                let records = try self.records(named: part.map(\.record.name), in: zone, withFields: true)
                for (outline, change) in part {
                    guard let record = records[outline.name] else { continue }
                    audience.add(change, of: recordForNotices(record), in: zone.id)
                }
            }
        }

        package func show(_ aliases: [NewRecordAlias], of zone: Zone) throws(RelayError) {
            try requireOwner(zone.id.owner)
            try attempt {
                let aliases = aliases.map { ShareAlias(share: $0.share, shown: $0.shown, kept: $0.kept) }
                try rows.show(aliases, of: zone, numbers: self)
            }
        }

        package func recordsAboveShareRoots(
            among names: [String],
            in zone: Zone
        ) throws(RelayError) -> Set<String> {
            try attempt {
                var search =
                    try rootSearch.flatMap { $0.zone == zone.number ? $0 : nil }
                    ?? ShareRootSearch(in: zone, rows: rows)
                // A second reference would make each change copy it.
                rootSearch = nil
                defer { rootSearch = search }
                return try search.recordsAboveRoots(among: names, rows: rows)
            }
        }

        package func assignInvitations(
            to contacts: [Share.Contact],
            inZonesOf owner: UserID,
            to user: UserID
        ) throws(RelayError) {
            try requireOwner(owner)
            try attempt {
                guard let ownerNumber = try transaction.number(of: owner) else { return }
                let number = try transaction.ensureNumber(of: user)
                // Those of shares have participants.
                knownRecords = [:]
                for contact in contacts {
                    let (column, text) =
                        switch contact {
                        case .email(let address): ("email", address)
                        case .phone(let number): ("phone", number)
                        }
                    transaction.later(
                        """
                        UPDATE participant SET person = $1 WHERE \(column) = $2 AND person IS NULL AND share IN (
                            SELECT s.id FROM zone z JOIN share s ON s.zone = z.id WHERE z.owner = $3)
                        """,
                        .int(number),
                        .text(text),
                        .int(ownerNumber)
                    )
                }
            }
        }
    }
#endif
