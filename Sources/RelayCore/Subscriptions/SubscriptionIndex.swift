package import Records
import Wire

/// An index of one environment's query subscriptions, which finds the subscriptions that a changed record matches.
///
/// Indexed by record type, then by database, then by the value of one field that the subscription's query compares for
/// equality. A change therefore costs time proportional to the subscriptions with a matching value and those without an
/// equality filter, not to the total number.
package struct SubscriptionIndex: Sendable {
    /// The database that a subscription watches.
    enum Place: Hashable {
        case publicDatabase
        case privateZones(of: UserID)
        case sharedZones(with: UserID)

        init(_ scope: DatabaseScope, _ user: UserID) {
            switch scope {
            case .public: self = .publicDatabase
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
        /// The definition of the type against which the queries were parsed.
        var type: RecordType?
        var version: Int
        var buckets: [Place: SubscriptionBucket] = [:]
    }

    private var types: [String: TypeEntry] = [:]
    private var queries: [Key: SubscribedQuery] = [:]

    package init() {}

    package var count: Int { queries.count }

    // MARK: Updates

    /// Applies a commit's change of a subscription; a subscription without a query is removed from the index.
    package mutating func apply(_ change: CommittedSubscription, schema: Schema) {
        let key = Key(user: change.user, scope: change.scope, id: change.id)
        remove(key)
        guard let subscription = change.subscription, let query = subscription.query else { return }
        refresh(query.recordType, schema)
        queries[key] = query
        let entry = SubscriptionEntry(key, subscription, query, schema)
        types[query.recordType, default: TypeEntry(type: schema.types[query.recordType], version: schema.version)]
            .buckets[Place(key.scope, key.user), default: SubscriptionBucket()].insert(entry)
    }

    private mutating func remove(_ key: Key) {
        guard let old = queries.removeValue(forKey: key) else { return }
        let place = Place(key.scope, key.user)
        types[old.recordType]?.buckets[place]?.remove(key)
        if types[old.recordType]?.buckets[place]?.isEmpty == true { types[old.recordType]?.buckets[place] = nil }
        if types[old.recordType]?.buckets.isEmpty == true { types[old.recordType] = nil }
    }

    /// Parses a type's queries again if the type's definition has changed.
    private mutating func refresh(_ name: String, _ schema: Schema) {
        guard let entry = types[name], entry.version != schema.version else { return }
        types[name]?.version = schema.version
        guard entry.type != schema.types[name] else { return }
        types[name]?.type = schema.types[name]
        for place in entry.buckets.keys { types[name]?.buckets[place]?.reparse(schema) }
    }

    // MARK: Lookup

    /// A subscription that matches a change.
    package struct Match: Sendable {
        package var user: UserID
        package var scope: DatabaseScope
        package var subscription: Subscription
        package var event: RecordEvents
        /// The record in its new state, or its last state if it was deleted.
        package var record: StoredRecord

        package init(
            user: UserID,
            scope: DatabaseScope,
            subscription: Subscription,
            event: RecordEvents,
            record: StoredRecord
        ) {
            self.user = user
            self.scope = scope
            self.subscription = subscription
            self.event = event
            self.record = record
        }
    }

    /// Returns whether a change may match a subscription; if not, `matches` returns nothing.
    package func mayMatchAny(_ change: CommittedRecord, schema: Schema) -> Bool {
        guard let entry = types[change.after.type] else { return false }
        // A deleted record is matched by its last state; after a schema change every query must be parsed again.
        guard !change.after.isDeleted, entry.version == schema.version else { return true }
        let bucket = entry.buckets[Self.place(of: change.zone)]
        if !change.viewers.isEmpty, entry.buckets.count > (bucket == nil ? 0 : 1) { return true }
        return bucket?.mayMatch(change.after) ?? false
    }

    /// The database of users who see the whole zone.
    private static func place(of zone: ZoneID) -> Place {
        zone.owner == Zone.publicOwner ? .publicDatabase : .privateZones(of: zone.owner)
    }

    /// Returns the subscriptions whose query matches the changed record and whose user may read it.
    ///
    /// A created or updated record is matched in its new state, a deleted one in its last. For a participant, a record
    /// counts as created when it becomes visible and as deleted when it becomes invisible. The result is sorted by user
    /// and subscription, so that it is deterministic.
    package mutating func matches(_ change: CommittedRecord, schema: Schema) throws(RelayError) -> [Match] {
        let type = change.after.type
        guard let version = types[type]?.version else { return [] }
        if version != schema.version { refresh(type, schema) }
        guard let buckets = types[type]?.buckets else { return [] }
        var matches: [Match] = []
        let isPublic = change.zone.owner == Zone.publicOwner
        let place = Self.place(of: change.zone)
        if !change.isOnlyMoved, let bucket = buckets[place],
            let (event, record) = change.news(couldSee: true, canSee: true)
        {
            for entry in try bucket.entries(for: record, event, in: change.zone) {
                guard !isPublic || entry.mayRead(record, schema) else { continue }
                matches.append(entry.match(event, record))
            }
        }
        // In most cases only the owner has subscriptions.
        guard buckets.count > (buckets[place] == nil ? 0 : 1) else { return Self.inOrder(matches) }
        for viewer in change.viewers {
            guard let bucket = buckets[.sharedZones(with: viewer.user)],
                let (event, record) = change.news(couldSee: viewer.couldSee, canSee: viewer.canSee)
            else { continue }
            let seen = viewer.aliases.viewed(record)
            for entry in try bucket.entries(for: seen, event, in: change.zone) {
                matches.append(entry.match(event, seen))
            }
        }
        return Self.inOrder(matches)
    }

    /// Returns the subscriptions that may have matched a record of which only the current state is known.
    ///
    /// Used for the zone's owner, or for `participant` if given. A deleted record may have matched any query, and a
    /// record that `mayBeNew` may have been both created and updated.
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
    /// Returns the event for a user who saw the record before, or sees it now; `nil` if nothing changed for them.
    fileprivate func news(couldSee: Bool, canSee: Bool) -> (event: RecordEvents, record: StoredRecord)? {
        let wasThere = couldSee && before.map { !$0.isDeleted } ?? false
        let isThere = canSee && !after.isDeleted
        switch (wasThere, isThere) {
        case (false, false): return nil
        case (true, true): return isOnlyMoved ? nil : (.update, after)
        case (false, true): return (.create, after)
        case (true, false): return (.delete, before ?? after)
        }
    }
}

/// A query subscription with its parsed query.
struct SubscriptionEntry {
    let key: SubscriptionIndex.Key
    let subscription: Subscription
    let query: SubscribedQuery
    /// The parsed filters; `nil` while the schema lacks a type or field that the query uses, so that nothing matches.
    private(set) var match: QueryMatch?
    /// The query and its type, if the query's meaning depends on the zone.
    private var zoneQuery: (query: Query, type: RecordType)?
    /// A field and the values of which it must have one; `nil` if the query has no equality filter.
    private(set) var anchor: (field: Query.Field, keys: [QueryKey])?

    init(_ key: SubscriptionIndex.Key, _ subscription: Subscription, _ query: SubscribedQuery, _ schema: Schema) {
        self.key = key
        self.subscription = subscription
        self.query = query
        read(schema)
    }

    /// Parses the query against the schema's current names and types.
    mutating func read(_ schema: Schema) {
        match = nil
        anchor = nil
        zoneQuery = nil
        guard let type = schema.types[query.recordType],
            let parsed = try? QueryCodec.read(JSONDocument(parsing: query.json).root, schema: schema),
            (try? QueryCheck(parsed, of: type).checkFilters()) != nil
        else { return }
        match = QueryMatch(parsed.filters, type: type)
        if parsed.namesZones {
            let database = DatabaseAddress(scope: key.scope, caller: Caller(.user(key.user), deviceID: ""))
            zoneQuery = (parsed.resolvingZoneOwners(in: database), type)
        }
        anchor =
            parsed.filters
            .first { [.equals, .in, .listContains].contains($0.comparator) && $0.field != .anySearchable }
            .map { ($0.field, $0.keys) }
    }

    /// Returns whether the subscriber may read this record of the public database.
    func mayRead(_ record: StoredRecord, _ schema: Schema) -> Bool {
        let subscriber = Caller(.user(key.user), deviceID: "")
        return DatabaseAddress(scope: .public, caller: subscriber).rights(to: record, in: schema).contains(.read)
    }

    /// Returns whether a record of this zone matches.
    func matches(for values: QueryValues, in zone: ZoneID) -> Bool {
        guard let zoneQuery else { return match?.matches(for: values) ?? false }
        return QueryMatch(zoneQuery.query.restricted(to: zone).filters, type: zoneQuery.type).matches(for: values)
    }

    func match(_ event: RecordEvents, _ record: StoredRecord) -> SubscriptionIndex.Match {
        .init(user: key.user, scope: key.scope, subscription: subscription, event: event, record: record)
    }
}

/// The subscriptions for one record type in one user's database, or in the public database.
struct SubscriptionBucket {
    private var entries: [SubscriptionIndex.Key: SubscriptionEntry] = [:]
    private var anchored: [Query.Field: [QueryKey: Set<SubscriptionIndex.Key>]] = [:]
    private var unanchored: Set<SubscriptionIndex.Key> = []
    /// The fields that the queries read; may include fields of subscriptions that have ended.
    private var fieldNames: Set<String> = []

    var isEmpty: Bool { entries.isEmpty }

    mutating func insert(_ entry: SubscriptionEntry) {
        entries[entry.key] = entry
        fieldNames.formUnion(entry.match?.fieldNames ?? [])
        guard let anchor = entry.anchor else {
            unanchored.insert(entry.key)
            return
        }
        for key in anchor.keys { anchored[anchor.field, default: [:]][key, default: []].insert(entry.key) }
    }

    mutating func remove(_ key: SubscriptionIndex.Key) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        unanchored.remove(key)
        guard let (field, values) = entry.anchor else { return }
        for value in values {
            anchored[field]?[value]?.remove(key)
            if anchored[field]?[value]?.isEmpty == true { anchored[field]?[value] = nil }
        }
        if anchored[field]?.isEmpty == true { anchored[field] = nil }
    }

    mutating func reparse(_ schema: Schema) {
        let old = entries.values
        self = SubscriptionBucket()
        for var entry in old {
            entry.read(schema)
            insert(entry)
        }
    }

    /// Returns the subscriptions that fire on an event in this zone, without evaluating their filters.
    func entries(watching event: RecordEvents, in zone: ZoneID) -> [SubscriptionEntry] {
        entries.values.filter { $0.query.firesOn.contains(event) && ($0.query.zone ?? zone) == zone }
    }

    /// Returns the subscriptions that match this event of this record.
    func entries(
        for record: StoredRecord,
        _ event: RecordEvents,
        in zone: ZoneID
    ) throws(RelayError) -> [SubscriptionEntry] {
        let candidates = try candidates(for: record)
        guard !candidates.isEmpty else { return [] }
        let values = try QueryValues(record, fields: fieldNames)
        return candidates.compactMap { key in
            guard let entry = entries[key], entry.query.firesOn.contains(event),
                entry.query.zone.map({ $0 == zone }) ?? true, entry.matches(for: values, in: zone)
            else { return nil }
            return entry
        }
    }

    /// Returns whether any subscription could match the record, judging by equality filters only.
    func mayMatch(_ record: StoredRecord) -> Bool {
        guard unanchored.isEmpty, let candidates = try? candidates(for: record) else { return true }
        return !candidates.isEmpty
    }

    /// Returns the subscriptions whose equality filter matches the record, and those without an equality filter.
    ///
    /// Most records match no subscription, so only the fields with equality filters are read, without decoding the
    /// record.
    private func candidates(for record: StoredRecord) throws(RelayError) -> Set<SubscriptionIndex.Key> {
        var candidates = unanchored
        for (field, byValue) in anchored {
            switch field {
            case .system(let system): candidates.add(byValue[record.key(of: system)])
            case .own(let name):
                guard let value = try record.value(ofField: name) else { continue }
                if case .list(_, let members) = value {
                    for key in members.lazy.compactMap({ QueryKey($0) }) { candidates.add(byValue[key]) }
                } else if let key = QueryKey(value) {
                    candidates.add(byValue[key])
                }
            case .anySearchable: continue
            }
        }
        return candidates
    }
}

extension Set {
    /// Avoids a copy if either set is empty.
    fileprivate mutating func add(_ others: Set?) {
        guard let others else { return }
        if isEmpty { self = others } else { formUnion(others) }
    }
}
