package import Records

/// One page of a database's change feed: the zones that changed after a token.
///
/// Works like a zone's feed, one level up: a zone appears once, at the position of its latest change, and as deleted
/// after its deletion. See Wire.md, "changes/database".
package struct DatabaseChanges: Sendable {
    package var database: DatabaseAddress
    package var token: String?
    package var limit: Int

    package init(database: DatabaseAddress, token: String? = nil, limit: Int) {
        self.database = database
        self.token = token
        self.limit = limit
    }

    package struct Page: Hashable, Sendable {
        package var zones: [Zone]
        package var token: ChangeToken
        package var moreComing: Bool
    }

    /// Throws `badRequest` in the public database and `changeTokenExpired` for a token of another feed.
    package func read(from reader: any StoreReader, epochs: Epochs) throws(RelayError) -> Page {
        guard database.scope != .public else {
            throw .badRequest("The public database keeps no change feed; query it by ___modTime.")
        }
        let start = try position(epochs)
        let (zones, latest) = try reader.zones(in: database, endedAfter: start)
        guard start ?? 0 <= latest else { throw .changeTokenExpired }
        var changed = zones.filter { $0.tracksChanges && $0.lastChange > start ?? 0 }
        if changed.contains(where: \.isDeleted) {
            // If several zones had the same name one after the other, only the last is reported: in one page with the
            // deletion of an earlier one, a client could not tell which came first. A token of a deleted zone is
            // rejected, which makes the client list the new zone from the start.
            var seen: Set<ZoneID> = []
            changed = changed.reversed().filter { seen.insert($0.id).inserted }.reversed()
        }
        guard changed.count > limit, limit > 0 else {
            let end = Self.token(of: database, epoch: epochs.current, position: latest)
            return Page(zones: changed, token: end, moreComing: false)
        }
        let last = changed[Self.end(ofPageOf: limit)]
        return Page(
            zones: Array(changed.prefix(limit)),
            token: Self.token(of: database, epoch: epochs.current, position: last.lastChange),
            moreComing: true
        )
    }

    /// Returns the change token of this database at a position.
    package static func token(of database: DatabaseAddress, epoch: UInt64, position: UInt64) -> ChangeToken {
        var log = Fingerprint(of: database.scope.pathName)
        log.add(UInt8(ascii: "/"))
        if let user = database.caller.user { log.add(user.recordName) }
        return ChangeToken(kind: .database, log: log.sum, epoch: epoch, position: position)
    }

    private func position(_ epochs: Epochs) throws(RelayError) -> UInt64? {
        guard let text = token else { return nil }
        let log = Self.token(of: database, epoch: epochs.current, position: 0).log
        guard let token = ChangeToken(encoded: text), token.kind == .database, token.log == log, epochs.admit(token)
        else { throw .changeTokenExpired }
        return token.position
    }
}

/// The epochs of a store, which decide whether a change token belongs to the store's own past.
///
/// An epoch begins with the first write of each process that runs the relay. A store that was rolled back to an earlier
/// state, by whatever means, therefore recognizes tokens of the future it has lost: they have an epoch that the store
/// does not know, or a position after the end of one that it knows.
package struct Epochs: Hashable, Sendable {
    /// The epoch of new tokens.
    package let current: UInt64
    /// The last change number of each earlier epoch.
    private let ends: [UInt64: UInt64]

    package init(current: UInt64, ends: [UInt64: UInt64] = [:]) {
        self.current = current
        self.ends = ends
    }

    /// Returns these epochs followed by a new one that begins after change number `last`.
    package func followed(by next: UInt64, after last: UInt64) -> Epochs {
        var ends = ends
        ends[current] = last
        return Epochs(current: next, ends: ends)
    }

    /// Returns whether this store can have issued the token, judging by its epoch.
    func admit(_ token: ChangeToken) -> Bool {
        token.epoch == current || ends[token.epoch].map { max(token.position, token.floor, token.top) <= $0 } ?? false
    }
}
