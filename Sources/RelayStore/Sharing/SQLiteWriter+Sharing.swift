import GRDB
import Records
import RelayCore

/// Updates the sharing tables when share records change.
extension SQLiteWriter {
    /// Stores what a share record shares, grants and revokes access, and records whom to notify.
    ///
    /// `zone` is the owner's view of the zone.
    func updateShare(of record: StoredRecord, over before: StoredRecord?, in zone: inout Zone) throws {
        let old = before?.sharing
        guard let share = Self.written(record.sharing, over: old) else {
            if let old { try endShare(old, in: &zone, at: record.change) }
            return
        }
        let number = try old.flatMap { try self.number(ofShare: $0) } ?? insert(share, named: record.name, in: zone)
        if let old {
            if old.publicPermission != share.publicPermission { try setPermission(share.publicPermission, of: number) }
        } else {
            zone.sharing = share.root == nil ? .everything : .hierarchies
            try writeSharing(of: zone)
            if let root = share.root { newHierarchies.append((number, root)) }
        }
        if old?.participants != share.participants { try write(share.participants, of: number) }
        try writeRequests(share, over: old, as: number)
        try changeAccess(
            from: old?.joined ?? [:],
            to: share.joined,
            in: zone,
            ofHierarchy: share.root != nil,
            at: record.change
        )
        for user in share.invited.subtracting(old?.invited ?? []) {
            addRecipient(.init(user: user, token: nil, knowsZone: false), of: zone.id)
        }
    }

    /// Ends all shares of a zone that is being deleted.
    func endSharing(in zone: Zone) throws {
        let users = try listeners(of: zone).map(\.user)
        for user in users {
            try setAccess(of: user, to: zone, ended: true, at: zone.lastChange)
            addRecipient(.init(user: user, token: nil), of: zone.id)
        }
        for sql in [
            "DELETE FROM share_entry WHERE share IN (SELECT id FROM share WHERE zone = ?)",
            "DELETE FROM share WHERE zone = ?",
        ] {
            let statement = try SQL(sql, in: database)
            statement.bind(1, zone.number)
            try statement.run()
        }
        cache.listeners[zone.number] = nil
    }

    private func endShare(_ share: Share, in zone: inout Zone, at change: UInt64) throws {
        guard let number = try number(ofShare: share) else { return }
        for sql in ["DELETE FROM share_entry WHERE share = ?", "DELETE FROM share WHERE id = ?"] {
            let statement = try SQL(sql, in: database)
            statement.bind(1, number)
            try statement.run()
        }
        let rest = try SQL("SELECT 1 FROM share WHERE zone = ? LIMIT 1", in: database)
        rest.bind(1, zone.number)
        if try !rest.step() { zone.sharing = .nothing }
        rest.reset()
        try writeSharing(of: zone)
        try changeAccess(from: share.joined, to: [:], in: zone, ofHierarchy: share.root != nil, at: change)
    }

    // MARK: Access

    /// Grants and revokes access, and notifies users who have lost some.
    private func changeAccess(
        from old: [UserID: Share.Permission],
        to new: [UserID: Share.Permission],
        in zone: Zone,
        ofHierarchy isHierarchy: Bool,
        at change: UInt64
    ) throws {
        let (given, taken) = (Set(new.keys).subtracting(old.keys), Set(old.keys).subtracting(new.keys))
        guard !given.isEmpty || !taken.isEmpty else { return }
        cache.listeners[zone.number] = nil
        for user in given { try setAccess(of: user, to: zone, ended: false, at: change) }
        for user in taken {
            // The user may still see another hierarchy of the zone; the zone gets a new identity for the user then.
            let rest = try isHierarchy ? super.zone(zone.id, sharedWith: user) : nil
            let isOver = rest?.view?.shares.isEmpty ?? true
            let identity = try setAccess(of: user, to: zone, ended: isOver, at: change)
            let left = isOver ? nil : token(identity, at: max(change, rest?.lastChange ?? 0))
            addRecipient(.init(user: user, token: left), of: zone.id)
        }
    }

    /// Sets a user's access to a zone; returns the zone's new identity in the user's view.
    @discardableResult
    func setAccess(of user: UserID, to zone: Zone, ended: Bool, at change: UInt64) throws -> UInt64 {
        let identity = drawIdentity()
        let statement = try SQL(
            "INSERT OR REPLACE INTO shared_zone (user, zone, identity, change, ended) VALUES (?, ?, ?, ?, ?)",
            in: database
        )
        statement.bind(1, try ensureNumber(of: user))
        statement.bind(2, zone.number)
        statement.bind(3, identity)
        statement.bind(4, change)
        statement.bind(5, ended)
        try statement.run()
        return identity
    }

    // MARK: Rows

    func number(ofShare share: Share) throws -> Int64? {
        let statement = try SQL("SELECT id FROM share WHERE guid = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, share.shortGUID)
        return try statement.step() ? statement.int(0) : nil
    }

    private func insert(_ share: Share, named name: String, in zone: Zone) throws -> Int64 {
        let statement = try SQL(
            "INSERT INTO share (zone, name, root, guid, public_permission) VALUES (?, ?, ?, ?, ?)",
            in: database
        )
        statement.bind(1, zone.number)
        statement.bind(2, name)
        statement.bind(3, share.root)
        statement.bind(4, share.shortGUID)
        statement.bind(5, Int64(share.publicPermission.rawValue))
        try statement.run()
        return database.lastInsertedRowID
    }

    private func setPermission(_ permission: Share.Permission, of share: Int64) throws {
        let statement = try SQL("UPDATE share SET public_permission = ? WHERE id = ?", in: database)
        statement.bind(1, Int64(permission.rawValue))
        statement.bind(2, share)
        try statement.run()
    }

    private func writeSharing(of zone: Zone) throws {
        let statement = try SQL("UPDATE zone_row SET shared = ? WHERE id = ?", in: database)
        statement.bind(1, zone.sharing.rawValue)
        statement.bind(2, zone.number)
        try statement.run()
        cache.zones.keep(zone)
    }

    private func write(_ participants: [Share.Participant], of share: Int64) throws {
        let delete = try SQL("DELETE FROM participant WHERE share = ?", in: database)
        delete.bind(1, share)
        try delete.run()
        for (place, participant) in participants.enumerated() {
            let statement = try SQL(
                """
                INSERT INTO participant (
                    share, id, place, role, permission, accepted, user, email, phone, has_asked, added
                ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                in: database
            )
            statement.bind(1, share)
            statement.bind(2, participant.id)
            statement.bind(3, Int64(place))
            statement.bind(4, Int64(participant.role.rawValue))
            statement.bind(5, Int64(participant.permission.rawValue))
            statement.bind(6, participant.hasAccepted)
            if let user = participant.user { statement.bind(7, try ensureNumber(of: user)) }
            if case .email(let address)? = participant.contact { statement.bind(8, address) }
            if case .phone(let number)? = participant.contact { statement.bind(9, number) }
            statement.bind(10, participant.hasRequestedAccess)
            if let added = participant.added { statement.bind(11, added.milliseconds) }
            try statement.run()
        }
    }

    func assignInvitations(
        to contacts: [Share.Contact],
        inZonesOf owner: UserID,
        to user: UserID
    ) throws(RelayError) {
        try requireOwner(owner)
        try attempt {
            guard let ownerNumber = try number(of: owner) else { return }
            let number = try ensureNumber(of: user)
            for contact in contacts {
                let (column, text) =
                    switch contact {
                    case .email(let address): ("email", address)
                    case .phone(let number): ("phone", number)
                    }
                let statement = try SQL(
                    """
                    UPDATE participant SET user = ?1 WHERE \(column) = ?2 AND user IS NULL AND share IN (
                        SELECT s.id FROM share s JOIN zone_row z ON z.id = s.zone WHERE z.owner = ?3)
                    """,
                    in: database
                )
                statement.bind(1, number)
                statement.bind(2, text)
                statement.bind(3, ownerNumber)
                try statement.run()
            }
        }
    }

    private func writeRequests(_ share: Share, over old: Share?, as number: Int64) throws {
        if share.allowsAccessRequests != old?.allowsAccessRequests ?? false {
            let statement = try SQL("UPDATE share SET allows_requests = ? WHERE id = ?", in: database)
            statement.bind(1, share.allowsAccessRequests)
            statement.bind(2, number)
            try statement.run()
        }
        guard share.requesters != old?.requesters ?? [] || share.blocked != old?.blocked ?? [] else { return }
        let delete = try SQL("DELETE FROM share_request WHERE share = ?", in: database)
        delete.bind(1, number)
        try delete.run()
        let people = share.requesters.map { ($0, false) } + share.blocked.map { ($0, true) }
        for (place, (user, isBlocked)) in people.enumerated() {
            let insert = try SQL(
                "INSERT OR REPLACE INTO share_request (share, user, place, blocked) VALUES (?, ?, ?, ?)",
                in: database
            )
            insert.bind(1, number)
            insert.bind(2, try ensureNumber(of: user))
            insert.bind(3, Int64(place))
            insert.bind(4, isBlocked)
            try insert.run()
        }
    }
}

extension Share {
    /// The users who have joined, with their permissions.
    fileprivate var joined: [UserID: Permission] {
        participants.reduce(into: [:]) { joined, participant in
            guard participant.hasAccepted, participant.permission != .none, let user = participant.user else { return }
            joined[user] = participant.permission
        }
    }

    /// The users with a pending invitation.
    fileprivate var invited: Set<UserID> { Set(participants.filter { !$0.hasAccepted }.compactMap(\.user)) }
}
