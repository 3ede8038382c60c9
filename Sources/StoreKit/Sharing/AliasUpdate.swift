import Records
package import RelayCore

/// Decides which names of records mean which records in a participant's view: see ParticipantViews.md, "Names".
///
/// If a name comes to mean another record for a user, the user's tokens expire: a feed cannot express that two records
/// have exchanged their names.
extension RecordAliases {
    /// Returns the names under which a user sees records that have other names in the zone.
    ///
    /// A name means the record that has it if the user can see that record, whatever participants have chosen. A name
    /// that two hierarchies use for different records means neither.
    ///
    /// - Parameters:
    ///   - aliases: the aliases of at least the shares that the user has joined.
    ///   - shares: these shares.
    package init(of aliases: [ShareAlias], joined shares: Set<Int64>) {
        self.init()
        var found: [String: [String]] = [:]
        for alias in aliases where shares.contains(alias.share) {
            if let cover = alias.shownCover, shares.contains(cover) { continue }
            found[alias.shown, default: []].append(alias.kept)
        }
        for (shown, kept) in found where kept.count == 1 {
            // Skips a name assigned by the relay that a participant has chosen too: the record that has it is not
            // visible.
            guard let kept = kept.first, found[kept]?.count != 1 else { continue }
            add(shown, for: kept)
        }
    }
}

extension SharingRows {
    /// Shows records under other names in shares of a zone, where the shares' users do not see them so already.
    package func show(_ aliases: [ShareAlias], of zone: Zone, numbers: some NumberSource) throws {
        let existing = try self.aliases(showing: aliases.map(\.shown), in: zone.number)
        let covers = existing.isEmpty ? [:] : try covers(of: existing.map(\.kept), in: zone.number)
        let showing = Dictionary(grouping: existing, by: \.shown)
        /// Returns the share that covers the record which has had this name in the share so far.
        func place(of alias: ShareAlias) -> Int64? {
            showing[alias.shown]?.first { $0.share == alias.share }.flatMap { covers[$0.kept] }
        }
        // Users who see the record there keep seeing it under this name.
        let new = aliases.filter { place(of: $0) != $0.share }
        guard !new.isEmpty else { return }
        try write(new)
        // The relay may have assigned one of these names.
        let keeping = Dictionary(grouping: try self.aliases(keeping: new.map(\.shown), in: zone.number), by: \.kept)
        var shares: [Int64: Set<Int64>] = [:]
        for alias in new {
            var others = Set(showing[alias.shown]?.map(\.share) ?? [])
            others.remove(alias.share)
            others.formUnion(keeping[alias.shown]?.map(\.share) ?? [])
            if let place = place(of: alias) { others.insert(place) }
            if !others.isEmpty { shares[alias.share, default: []].formUnion(others) }
        }
        guard !shares.isEmpty else { return }
        try expireTokens(ofUsersIn: shares, of: zone, at: numbers.takeChangeNumber(), numbers)
    }

    /// Expires the tokens of users who have joined one of these shares and one of those beside it.
    func expireTokens(
        ofUsersIn shares: [Int64: Set<Int64>],
        of zone: Zone,
        at change: UInt64,
        _ numbers: some NumberSource
    ) throws {
        let memberships = try memberships(ofUsersIn: shares.keys.sorted(), in: zone.number)
        let joined = Dictionary(grouping: memberships, by: \.user).mapValues { Set($0.map(\.share)) }
        let users = joined.filter { _, joined in
            shares.contains { share, others in joined.contains(share) && !joined.isDisjoint(with: others) }
        }
        guard !users.isEmpty else { return }
        try write(
            users.keys.sorted { $0.recordName < $1.recordName }.map { user in
                ZoneAccess(user: user, zone: zone.number, identity: numbers.drawIdentity(), change: change)
            }
        )
    }
}
