import Records
import Synchronization
import Wire

/// Own user IDs on their way to the relay.
///
/// Records read here name the current user as `CKCurrentUserDefaultName`; the relay knows them by their record name only,
/// which is put in when something is sent.
extension FieldValue {
    /// Whether it leads to the current user by the name that stands for everybody's own.
    var leadsToCaller: Bool {
        switch self {
        case .reference(let reference): reference.recordName == CKCurrentUserDefaultName
        case .list(.reference, let elements): elements.contains(where: \.leadsToCaller)
        default: false
        }
    }

    /// The same with the current user under their record name.
    func leadingToCaller(named name: String) -> FieldValue {
        switch self {
        case .reference(var reference) where leadsToCaller:
            reference.recordName = name
            return .reference(reference)
        case .list(.reference, let elements):
            return .list(.reference, elements.map { $0.leadingToCaller(named: name) })
        default: return self
        }
    }
}

extension Query.Filter {
    /// Of the fields that every record has, names are compared as text.
    private var isOfNames: Bool { if case .system = field { true } else { false } }

    fileprivate var asksForCaller: Bool {
        values.contains { $0.leadsToCaller || (isOfNames && $0.text == CKCurrentUserDefaultName) }
    }

    /// The same with the name that stands for everybody's own where a user is the current one, as records tell it.
    func withoutName(of caller: String) -> Query.Filter {
        guard field == .system(.createdBy) || field == .system(.modifiedBy) else { return self }
        var filter = self
        filter.values = values.map { $0.text == caller ? .string(CKCurrentUserDefaultName) : $0 }
        return filter
    }

    fileprivate mutating func nameCaller(_ name: String) {
        values = values.map { value in
            isOfNames && value.text == CKCurrentUserDefaultName ? .string(name) : value.leadingToCaller(named: name)
        }
    }
}

extension CKDatabase {
    /// The current user's record name.
    func callerName() async throws(CKError) -> String {
        let connection = try session.connection()
        if let known = connection.caller.recordName { return known }
        return try await connection.fetchCallerName()
    }

    /// The query with the current user under their record name, where it compares with them.
    func namingCaller(in query: Query) async throws(CKError) -> Query {
        guard query.filters.contains(where: \.asksForCaller) else { return query }
        let name = try await callerName()
        var query = query
        for index in query.filters.indices { query.filters[index].nameCaller(name) }
        return query
    }

    /// The same of a subscription to a query.
    func namingCaller(in subscription: Subscription) async throws(CKError) -> Subscription {
        guard case .query(var watched) = subscription.kind,
            let json = try? JSONDocument(parsing: watched.json, limits: .response),
            let query = try? QueryCodec.read(json.root, schema: Schema())
        else { return subscription }
        let named = try await namingCaller(in: query)
        guard named != query else { return subscription }
        watched.json = ClientRequest.encode(named)
        var subscription = subscription
        subscription.kind = .query(watched)
        return subscription
    }

    /// The current user's record name, where one of these records leads to them.
    func callerName(for drafts: [Draft]) async throws(CKError) -> String? {
        let isNeeded = drafts.contains { draft in
            draft.state.edits.keys.contains { draft.state.fields[$0]?.leadsToCaller ?? false }
        }
        return isNeeded ? try await callerName() : nil
    }
}
