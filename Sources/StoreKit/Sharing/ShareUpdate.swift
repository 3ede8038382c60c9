package import Records
package import RelayCore

/// Decides what follows from changed share records: shares, participants, access to the zone, and whom to notify.
package struct ShareUpdate {
    /// A share before and after a write.
    package struct Change {
        /// The name of the share's record.
        package var name: String
        /// The record's change number.
        package var change: UInt64
        package var old: Share?
        package var new: Share?

        package init(name: String, change: UInt64, old: Share?, new: Share?) {
            self.name = name
            self.change = change
            self.old = old
            self.new = new
        }
    }

    /// The shares of hierarchies that were created, whose records must still be entered.
    package private(set) var newHierarchies: [ShareKey] = []
    /// Participants to notify although they have lost access or have yet to join.
    package private(set) var recipients: [CommittedChange.Participant] = []

    /// Updates the sharing rows after share records were put, and sets how much of the zone is shared.
    ///
    /// Each change has an old or a new share. `zone` is the zone as its owner sees it; `token` returns a token of it.
    package static func run(
        for changes: [Change],
        in zone: inout Zone,
        rows: some SharingRows,
        numbers: some NumberSource,
        token: (_ identity: UInt64, _ position: UInt64) -> ChangeToken
    ) throws -> ShareUpdate {
        var update = ShareUpdate()
        let links = changes.compactMap { $0.old?.shortGUID }
        var shares = links.isEmpty ? [:] : try rows.shares(withLinks: links).mapValues(\.number)
        let sharing = zone.sharing
        let ended = changes.filter { $0.new == nil }.compactMap { $0.old.flatMap { shares[$0.shortGUID] } }
        if !ended.isEmpty {
            try rows.delete(shares: ended)
            if try rows.shares(of: zone.number).isEmpty { zone.sharing = .nothing }
        }
        let created = changes.compactMap { change in
            change.new.flatMap { new in
                change.old.flatMap { shares[$0.shortGUID] } == nil ? NewShare(new, named: change.name) : nil
            }
        }
        if !created.isEmpty {
            for (share, number) in zip(created, try rows.insert(created, in: zone.number)) {
                shares[share.shortGUID] = number
                zone.sharing = share.root == nil ? .everything : .hierarchies
                if share.root != nil { update.newHierarchies.append(ShareKey(number: number, root: share.root)) }
            }
        }
        if zone.sharing != sharing { try rows.writeSharing(of: zone) }
        try write(changes, to: shares, rows)
        try update.changeAccess(changes, in: zone, rows, numbers, token)
        for change in changes {
            for user in (change.new?.invited ?? []).subtracting(change.old?.invited ?? []) {
                update.recipients.append(.init(user: user, token: nil, knowsZone: false))
            }
        }
        return update
    }

    /// Ends all shares of a zone that is being deleted; returns whom to notify.
    package static func end(
        sharesOf zone: Zone,
        rows: some SharingRows,
        numbers: some NumberSource
    ) throws -> [CommittedChange.Participant] {
        let users = try rows.access(to: [zone.number]).map(\.user)
        if !users.isEmpty {
            try rows.write(
                users.map {
                    ZoneAccess(
                        user: $0,
                        zone: zone.number,
                        identity: numbers.drawIdentity(),
                        change: zone.lastChange,
                        hasEnded: true
                    )
                }
            )
        }
        try rows.delete(shares: try rows.shares(of: zone.number).map(\.number))
        return users.map { .init(user: $0, token: nil) }
    }

    /// Writes what has changed of the settings, participants and requests.
    private static func write(_ changes: [Change], to shares: [String: Int64], _ rows: some SharingRows) throws {
        var settings: [ShareSettings] = []
        var participants: [Int64: [Share.Participant]] = [:]
        var requests: [Int64: ShareRequests] = [:]
        for change in changes {
            let old = change.old
            guard let new = change.new, let share = shares[old?.shortGUID ?? new.shortGUID] else { continue }
            if let old,
                old.publicPermission != new.publicPermission || old.allowsAccessRequests != new.allowsAccessRequests
            {
                settings.append(ShareSettings(new, number: share))
            }
            if old?.participants != new.participants { participants[share] = new.participants }
            if new.requesters != old?.requesters ?? [] || new.blocked != old?.blocked ?? [] {
                requests[share] = ShareRequests(requesters: new.requesters, blocked: new.blocked)
            }
        }
        if !settings.isEmpty { try rows.write(settings) }
        if !participants.isEmpty { try rows.write(participants: participants) }
        if !requests.isEmpty { try rows.write(requests: requests) }
    }

    /// Grants and revokes access, and notifies users who have lost some.
    private mutating func changeAccess(
        _ changes: [Change],
        in zone: Zone,
        _ rows: some SharingRows,
        _ numbers: some NumberSource,
        _ token: (_ identity: UInt64, _ position: UInt64) -> ChangeToken
    ) throws {
        var given: [UserID: UInt64] = [:]
        var taken: [UserID: UInt64] = [:]
        for change in changes {
            let (old, new) = (change.old?.joined ?? [:], change.new?.joined ?? [:])
            for user in new.keys where old[user] == nil { given[user] = max(given[user] ?? 0, change.change) }
            for user in old.keys where new[user] == nil { taken[user] = max(taken[user] ?? 0, change.change) }
        }
        guard !given.isEmpty || !taken.isEmpty else { return }
        let losing = taken.keys.sorted { $0.recordName < $1.recordName }
        // A user who has left a hierarchy may still see another one of the zone, which gets a new identity for the user
        // then.
        let left = losing.isEmpty ? [] : try rows.memberships(of: losing, in: zone.number)
        let last = Dictionary(left.map { ($0.user, $0.lastChange) }, uniquingKeysWith: max)
        var access: [ZoneAccess] = []
        for (user, change) in given.sorted(by: { $0.key.recordName < $1.key.recordName }) where taken[user] == nil {
            let identity = numbers.drawIdentity()
            access.append(ZoneAccess(user: user, zone: zone.number, identity: identity, change: change))
        }
        for user in losing {
            let change = max(taken[user] ?? 0, given[user] ?? 0)
            let identity = numbers.drawIdentity()
            let hasEnded = last[user] == nil
            access.append(
                ZoneAccess(user: user, zone: zone.number, identity: identity, change: change, hasEnded: hasEnded)
            )
            recipients.append(.init(user: user, token: last[user].map { token(identity, max(change, $0)) }))
        }
        try rows.write(access)
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

extension ShareSettings {
    fileprivate init(_ share: Share, number: Int64) {
        self.init(
            share: number,
            publicPermission: share.publicPermission,
            allowsAccessRequests: share.allowsAccessRequests
        )
    }
}

extension NewShare {
    fileprivate init(_ share: Share, named name: String) {
        self.init(
            name: name,
            root: share.root,
            shortGUID: share.shortGUID,
            settings: ShareSettings(share, number: 0)
        )
    }
}
