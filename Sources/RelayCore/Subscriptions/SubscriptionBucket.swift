import Records
import Wire

/// A query subscription with its parsed query.
struct SubscriptionEntry {
    let key: SubscriptionIndex.Key
    let subscription: Subscription
    let query: SubscribedQuery
    /// The parsed filters; `nil` while the schema lacks a type or field that the query uses, so that nothing matches.
    private(set) var match: QueryMatch?
    /// The query and its type, if the query's meaning depends on the zone.
    private var zoned: (query: Query, type: RecordType)?
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
        zoned = nil
        guard let type = schema.types[query.recordType],
            let parsed = try? QueryCodec.read(JSONDocument(parsing: query.json).root, schema: schema),
            (try? QueryCheck(parsed, of: type).checkFilters()) != nil
        else { return }
        match = QueryMatch(parsed.filters, type: type)
        if parsed.namesZones {
            let database = DatabaseAddress(scope: key.scope, caller: Caller(.user(key.user), deviceID: ""))
            zoned = (parsed.meant(in: database), type)
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
    func holds(for values: QueryValues, in zone: ZoneID) -> Bool {
        guard let zoned else { return match?.holds(for: values) ?? false }
        return QueryMatch(zoned.query.asked(of: zone).filters, type: zoned.type).holds(for: values)
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

    mutating func readAnew(_ schema: Schema) {
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
                entry.query.zone.map({ $0 == zone }) ?? true, entry.holds(for: values, in: zone)
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
