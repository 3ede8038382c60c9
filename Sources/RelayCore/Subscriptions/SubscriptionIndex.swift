package import Records

/// The query subscriptions of one container's environment, found by what a changed record is.
///
/// By record type first, then by whose database it is in, then by the value of one field that each subscription wants to be
/// equal to something. So a change costs time in the subscriptions that ask for its values, and in those that ask for no
/// equality at all; of other types, databases and values there may be any number.
package struct SubscriptionIndex: Sendable {
    /// Where a subscription looks.
    enum Place: Hashable {
        case everybodys
        case privateZones(of: UserID)
        case sharedZones(with: UserID)

        init(_ scope: DatabaseScope, _ user: UserID) {
            switch scope {
            case .public: self = .everybodys
            case .private: self = .privateZones(of: user)
            case .shared: self = .sharedZones(with: user)
            }
        }
    }

    struct Key: Hashable {
        var user: UserID
        var scope: DatabaseScope
        var id: String
    }

    private struct TypeEntry {
        /// As which the subscriptions' queries were read.
        var type: RecordType?
        var version: Int
        var buckets: [Place: SubscriptionBucket] = [:]
    }

    private var types: [String: TypeEntry] = [:]
    private var kept: [Key: SubscribedQuery] = [:]

    package init() {}

    package var count: Int { kept.count }

    // MARK: Keeping it

    /// Takes in what a commit did to a subscription; one that is no query's is forgotten.
    package mutating func apply(_ change: CommittedSubscription, schema: Schema) {
        let key = Key(user: change.user, scope: change.scope, id: change.id)
        remove(key)
        guard let subscription = change.subscription, let query = subscription.query else { return }
        refresh(query.recordType, schema)
        kept[key] = query
        let entry = SubscriptionEntry(key, subscription, query, schema)
        types[query.recordType, default: TypeEntry(type: schema.types[query.recordType], version: schema.version)]
            .buckets[Place(key.scope, key.user), default: SubscriptionBucket()].insert(entry)
    }

    private mutating func remove(_ key: Key) {
        guard let old = kept.removeValue(forKey: key) else { return }
        let place = Place(key.scope, key.user)
        types[old.recordType]?.buckets[place]?.remove(key)
        if types[old.recordType]?.buckets[place]?.isEmpty == true { types[old.recordType]?.buckets[place] = nil }
        if types[old.recordType]?.buckets.isEmpty == true { types[old.recordType] = nil }
    }

    /// Reads a type's queries anew where its definition has changed.
    private mutating func refresh(_ name: String, _ schema: Schema) {
        guard let entry = types[name], entry.version != schema.version else { return }
        types[name]?.version = schema.version
        guard entry.type != schema.types[name] else { return }
        types[name]?.type = schema.types[name]
        for place in entry.buckets.keys { types[name]?.buckets[place]?.readAnew(schema) }
    }

    // MARK: Asking it

    /// A subscription that a change concerns.
    package struct Match: Sendable {
        package var user: UserID
        package var scope: DatabaseScope
        package var subscription: Subscription
        package var event: RecordEvents
        /// What the subscriber is told of: the new state, of a deleted record the last one.
        package var record: StoredRecord
    }

    /// Whether a change must be looked at more closely: where not, `matches` finds nobody.
    package func mayConcernSomebody(_ change: CommittedRecord, schema: Schema) -> Bool {
        guard let entry = types[change.after.type] else { return false }
        // A deleted record is judged by what it was, and by a new schema all are.
        guard !change.after.isDeleted, entry.version == schema.version else { return true }
        let bucket = entry.buckets[Self.place(of: change.zone)]
        if !change.viewers.isEmpty, entry.buckets.count > (bucket == nil ? 0 : 1) { return true }
        return bucket?.mayMatch(change.after) ?? false
    }

    /// Where those look who may look into all of a zone.
    private static func place(of zone: ZoneID) -> Place {
        zone.owner == Zone.publicOwner ? .everybodys : .privateZones(of: zone.owner)
    }

    /// Whom a change concerns: those whose query the record matches and who may read it.
    ///
    /// A created and an updated record is judged by what it is now, a deleted one by what it was. For somebody with whom it is
    /// shared a record is created when it comes into their sight, and deleted when it goes. In the order of users and names, so
    /// that equal runs tell equal things.
    package mutating func matches(_ change: CommittedRecord, schema: Schema) throws(RelayError) -> [Match] {
        let type = change.after.type
        guard let version = types[type]?.version else { return [] }
        if version != schema.version { refresh(type, schema) }
        guard let buckets = types[type]?.buckets else { return [] }
        var matches: [Match] = []
        let isPublic = change.zone.owner == Zone.publicOwner
        let place = Self.place(of: change.zone)
        if !change.isOnlyMoved, let bucket = buckets[place],
            let (event, record) = change.news(sawIt: true, seesIt: true)
        {
            for entry in try bucket.entries(for: record, event, in: change.zone) {
                guard !isPublic || entry.mayRead(record, schema) else { continue }
                matches.append(entry.match(event, record))
            }
        }
        // Mostly only the owner watches.
        guard buckets.count > (buckets[place] == nil ? 0 : 1) else { return Self.inOrder(matches) }
        for viewer in change.viewers {
            guard let bucket = buckets[.sharedZones(with: viewer.user)],
                let (event, record) = change.news(sawIt: viewer.sawIt, seesIt: viewer.seesIt)
            else { continue }
            let seen = viewer.aliases.viewed(record)
            for entry in try bucket.entries(for: seen, event, in: change.zone) {
                matches.append(entry.match(event, seen))
            }
        }
        return Self.inOrder(matches)
    }

    /// As `matches`, for a record of which only the present state is known, and that somebody owns or, where `participant` is
    /// given, is shared with: one that is gone may have matched anything, and one that `mayBeNew` may have been created and
    /// updated.
    package mutating func possibleMatches(
        _ record: StoredRecord,
        mayBeNew: Bool,
        in zone: ZoneID,
        seenBy participant: UserID? = nil,
        schema: Schema
    ) throws(RelayError) -> [Match] {
        guard types[record.type] != nil else { return [] }
        refresh(record.type, schema)
        let place = participant.map { Place.sharedZones(with: $0) } ?? .privateZones(of: zone.owner)
        guard let bucket = types[record.type]?.buckets[place] else { return [] }
        guard !record.isDeleted else {
            return Self.inOrder(bucket.entries(watching: .delete, in: zone).map { $0.match(.delete, record) })
        }
        let isUnchanged = record.created == record.modified
        var matches: [Match] = []
        if isUnchanged || mayBeNew {
            matches = try bucket.entries(for: record, .create, in: zone).map { $0.match(.create, record) }
        }
        guard !isUnchanged else { return Self.inOrder(matches) }
        let told = Set(matches.map(\.subscription.id))
        matches += try bucket.entries(for: record, .update, in: zone).map { $0.match(.update, record) }
            .filter { !told.contains($0.subscription.id) }
        return Self.inOrder(matches)
    }

    private static func inOrder(_ matches: [Match]) -> [Match] {
        matches.sorted {
            ($0.user.recordName, $0.scope.rawValue, $0.subscription.id)
                < ($1.user.recordName, $1.scope.rawValue, $1.subscription.id)
        }
    }
}

extension CommittedRecord {
    /// What has happened for somebody who saw the record, or sees it, if it is there; `nil`: nothing.
    fileprivate func news(sawIt: Bool, seesIt: Bool) -> (event: RecordEvents, record: StoredRecord)? {
        let wasThere = sawIt && before.map { !$0.isDeleted } ?? false
        let isThere = seesIt && !after.isDeleted
        switch (wasThere, isThere) {
        case (false, false): return nil
        case (true, true): return isOnlyMoved ? nil : (.update, after)
        case (false, true): return (.create, after)
        case (true, false): return (.delete, before ?? after)
        }
    }
}
