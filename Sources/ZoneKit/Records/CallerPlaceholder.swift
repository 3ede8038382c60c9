import Records
import Synchronization
import Wire

/// Replaces the current user's placeholder name by the record name in values that are sent to the relay.
///
/// Fetched records contain `CKCurrentUserDefaultName` for the current user; the relay knows users only by their record
/// names.
extension FieldValue {
    /// Whether the value contains a reference to the current user by the placeholder name.
    var refersToCaller: Bool {
        switch self {
        case .reference(let reference): reference.recordName == CKCurrentUserDefaultName
        case .list(.reference, let elements): elements.contains(where: \.refersToCaller)
        default: false
        }
    }

    /// Returns the value with the current user's record name in place of the placeholder.
    func replacingCaller(named name: String) -> FieldValue {
        switch self {
        case .reference(var reference) where refersToCaller:
            reference.recordName = name
            return .reference(reference)
        case .list(.reference, let elements):
            return .list(.reference, elements.map { $0.replacingCaller(named: name) })
        default: return self
        }
    }
}

extension Query.Filter {
    /// Whether the filter compares names as text, as filters of system fields do.
    private var comparesNames: Bool { if case .system = field { true } else { false } }

    fileprivate var mentionsCaller: Bool {
        values.contains { $0.refersToCaller || (comparesNames && $0.text == CKCurrentUserDefaultName) }
    }

    /// Returns the filter with the placeholder in place of the current user's record name, as records contain it.
    func replacingName(of caller: String) -> Query.Filter {
        guard field == .system(.createdBy) || field == .system(.modifiedBy) else { return self }
        var filter = self
        filter.values = values.map { $0.text == caller ? .string(CKCurrentUserDefaultName) : $0 }
        return filter
    }

    fileprivate mutating func resolveCaller(_ name: String) {
        values = values.map { value in
            comparesNames && value.text == CKCurrentUserDefaultName ? .string(name) : value.replacingCaller(named: name)
        }
    }
}

extension CKDatabase {
    /// Returns the current user's record name.
    func callerName() async throws(CKError) -> String {
        let connection = try session.connection()
        if let known = connection.caller.recordName { return known }
        return try await client.callerName()
    }

    /// Returns the query with the current user's record name in place of the placeholder.
    func resolvingCaller(in query: Query) async throws(CKError) -> Query {
        guard query.filters.contains(where: \.mentionsCaller) else { return query }
        let name = try await callerName()
        var query = query
        for index in query.filters.indices { query.filters[index].resolveCaller(name) }
        return query
    }

    /// Returns the subscription with the current user's record name in place of the placeholder in its query.
    func resolvingCaller(in subscription: Subscription) async throws(CKError) -> Subscription {
        guard case .query(var watched) = subscription.kind,
            let json = try? JSONDocument(parsing: watched.json, limits: .response),
            let query = try? QueryCodec.read(json.root, schema: Schema())
        else { return subscription }
        let named = try await resolvingCaller(in: query)
        guard named != query else { return subscription }
        watched.json = ClientRequest.encode(named)
        var subscription = subscription
        subscription.kind = .query(watched)
        return subscription
    }

    /// Returns the current user's record name if one of the records contains a reference to the current user.
    func callerName(for drafts: [Draft]) async throws(CKError) -> String? {
        let isNeeded = drafts.contains { draft in
            draft.state.edits.keys.contains { draft.state.fields[$0]?.refersToCaller ?? false }
        }
        return isNeeded ? try await callerName() : nil
    }
}
