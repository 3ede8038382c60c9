package import Records

/// One page of a database's change feed: the zones that changed after a token.
///
/// Works like a zone's feed, one level up: a zone appears once, at the position of its latest change, and as deleted
/// after its deletion. The shared database is several such feeds, one of each owner, listed one after the other. See
/// Wire.md, "changes/database".
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
        package var token: DatabaseToken
        package var moreComing: Bool
        /// Whether the zones of some owners are missing, since their database cannot be reached now.
        ///
        /// The token keeps its positions in their logs, so that nothing is skipped.
        package var isIncomplete = false
    }

    /// Reads a page; `epochs` returns those of an owner.
    ///
    /// Throws `badRequest` in the public database and `changeTokenExpired` for a token of another feed.
    package func read(
        from reader: any StoreReader,
        epochs: (UserID) throws(RelayError) -> Epochs
    ) throws(RelayError) -> Page {
        guard database.scope != .public else {
            throw .badRequest("The public database keeps no change feed; query it by ___modTime.")
        }
        guard let user = database.caller.user else { throw .accessDenied }
        guard database.scope == .shared else { return try ownPage(of: user, from: reader, try epochs(user)) }
        return try sharedPage(of: user, from: reader, epochs)
    }

    /// The identity of a user's database in tokens.
    private func log(of user: UserID) -> UInt64 {
        var log = Fingerprint(of: database.scope.pathName)
        log.add(UInt8(ascii: "/"))
        log.add(user.recordName)
        return log.sum
    }

    // MARK: The private database

    private func ownPage(
        of user: UserID,
        from reader: any StoreReader,
        _ epochs: Epochs
    ) throws(RelayError) -> Page {
        var end = ChangeToken(kind: .database, log: log(of: user), epoch: epochs.current, position: 0)
        var start: UInt64?
        if let token {
            guard case .scalar(let token)? = DatabaseToken(encoded: token), token.log == end.log, epochs.admit(token)
            else { throw .changeTokenExpired }
            start = token.position
        }
        let (zones, latest) = try reader.zones(of: user, endedAfter: start)
        guard start ?? 0 <= latest else { throw .changeTokenExpired }
        let changed = Self.latestOfEachName(zones.filter { $0.tracksChanges && $0.lastChange > start ?? 0 })
        let hasMore = limit > 0 && changed.count > limit
        end.position = hasMore ? changed[Self.end(ofPageOf: limit)].lastChange : latest
        return Page(
            zones: hasMore ? Array(changed.prefix(limit)) : changed,
            token: .scalar(end),
            moreComing: hasMore
        )
    }

    /// If several zones had the same name one after the other, returns only the last one of them.
    ///
    /// In one page with the deletion of an earlier one, a client could not tell which came first. A token of a deleted
    /// zone is rejected, which makes the client list the new zone from the start.
    private static func latestOfEachName(_ changed: [Zone]) -> [Zone] {
        guard changed.contains(where: \.isDeleted) else { return changed }
        var seen: Set<ZoneID> = []
        return changed.reversed().filter { seen.insert($0.id).inserted }.reversed()
    }

    // MARK: The shared database

    /// The zones that an owner shares, or has shared, with the user.
    private struct OwnerLog {
        let owner: UserID
        let fingerprint: UInt64
        /// In the order of their latest changes.
        var zones: [Zone] = []

        var latest: UInt64 { zones.last?.lastChange ?? 0 }

        /// Returns the logs in the order of their fingerprints, which is that of tokens.
        static func logs(of zones: [Zone]) -> [OwnerLog] {
            let logs = Dictionary(grouping: zones) { $0.id.owner }.map { owner, zones in
                OwnerLog(owner: owner, fingerprint: VectorToken.fingerprint(of: owner), zones: zones)
            }
            return logs.sorted { $0.fingerprint < $1.fingerprint }
        }
    }

    private func sharedPage(
        of user: UserID,
        from reader: any StoreReader,
        _ epochs: (UserID) throws(RelayError) -> Epochs
    ) throws(RelayError) -> Page {
        let logs = OwnerLog.logs(of: try reader.zones(sharedWith: user))
        let isIncomplete = reader.lacksOwners
        let (start, unread) = try positions(in: logs, isIncomplete, of: user, epochs)
        var (zones, places, hasMore): ([Zone], [VectorToken.Place], Bool) = ([], [], false)
        for log in logs {
            let known = start[log.fingerprint]
            let changed = Self.latestOfEachName(
                // A client that knows none of the owner's zones needs no deletions.
                log.zones.filter { $0.lastChange > known ?? 0 && (!$0.isDeleted || known != nil) }
            )
            let room = limit > 0 ? limit - zones.count : .max
            // Without a zone that the client knows, the owner needs no place in the token.
            var reached = log.zones.allSatisfy(\.isDeleted) ? nil : log.latest
            if changed.count > room {
                hasMore = true
                reached = room > 0 ? changed[Self.end(ofPageOf: room)].lastChange : known
            }
            zones += changed.prefix(room)
            if let reached {
                places.append(.init(owner: log.fingerprint, epoch: try epochs(log.owner).current, position: reached))
            }
        }
        places = (places + unread).sorted { $0.owner < $1.owner }
        let token = VectorToken(log: self.log(of: user), places: places)
        return Page(zones: zones, token: .vector(token), moreComing: hasMore, isIncomplete: isIncomplete)
    }

    /// Returns the positions from which to continue, by the fingerprint of the owner, and the places of owners whose logs
    /// cannot be read now.
    private func positions(
        in logs: [OwnerLog],
        _ isIncomplete: Bool,
        of user: UserID,
        _ epochs: (UserID) throws(RelayError) -> Epochs
    ) throws(RelayError) -> (known: [UInt64: UInt64], unread: [VectorToken.Place]) {
        guard let token else { return ([:], []) }
        var positions: [UInt64: UInt64] = [:]
        var unread: [VectorToken.Place] = []
        switch DatabaseToken(encoded: token) {
        case .scalar(let token)? where token.log == log(of: user):
            // Issued when all owners' changes had numbers of one sequence, so it is a position in each owner's log. A token
            // with a place for each owner would lose it for those that are missing.
            if isIncomplete { throw .ownersAreMissing }
            guard try epochs(user).admit(token), token.position <= logs.map(\.latest).max() ?? 0 else { break }
            for log in logs where try epochs(log.owner).admit(token) { positions[log.fingerprint] = token.position }
            return (positions, [])
        case .vector(let token)? where token.log == log(of: user):
            let known = Dictionary(logs.map { ($0.fingerprint, $0) }) { first, _ in first }
            for place in token.places {
                if isIncomplete, known[place.owner] == nil {
                    unread.append(place)
                    continue
                }
                guard let log = known[place.owner], place.position <= log.latest,
                    try epochs(log.owner).admit(place.epoch, upTo: place.position)
                else { throw .changeTokenExpired }
                positions[place.owner] = place.position
            }
            return (positions, unread)
        default: break
        }
        throw .changeTokenExpired
    }
}

extension RelayError {
    /// The refusal of what needs the data of all owners, while some of it cannot be reached.
    package static let ownersAreMissing = RelayError(
        .tryAgainLater,
        "Some of the relay's databases cannot be reached now. Try again in a few seconds.",
        retryAfter: .seconds(5)
    )

    /// The refusal of a write to an owner whose data is being moved to another database.
    package static let ownerIsMoving = RelayError(
        .tryAgainLater,
        "This data is being moved to another database. Try again in a second.",
        retryAfter: .seconds(1)
    )
}

/// The epochs of an owner's data, which decide whether a change token belongs to the data's own past.
///
/// An epoch begins with the first write of each process that runs the relay. Data that were rolled back to an earlier
/// state, by whatever means, therefore recognize tokens of the future they have lost: these have an epoch that the owner
/// does not know, or a position after the end of one that the owner knows.
package struct Epochs: Hashable, Sendable {
    /// The epoch of new tokens.
    package let current: UInt64
    /// The last change number of each earlier epoch.
    package let ends: [UInt64: UInt64]

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

    /// Returns whether the token can belong to these data, judging by its epoch.
    func admit(_ token: ChangeToken) -> Bool {
        admit(token.epoch, upTo: max(token.position, token.floor, token.top))
    }

    /// Returns whether a token of this epoch can contain this position.
    func admit(_ epoch: UInt64, upTo position: UInt64) -> Bool {
        epoch == current || ends[epoch].map { position <= $0 } ?? false
    }
}
