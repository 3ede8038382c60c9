package import Records
import Wire

/// What queries look at in one record: its own fields among `names`, taken out of the stored bytes once, and its system
/// fields.
package struct QueryValues {
    private let record: StoredRecord
    private let own: [String: FieldValue]

    /// Throws `internalError` where the stored bytes are not what was stored.
    package init(_ record: StoredRecord, fields names: Set<String>) throws(RelayError) {
        self.record = record
        guard !names.isEmpty else {
            own = [:]
            return
        }
        do {
            own = try FieldsJSON.values(of: names, in: record.fields)
        } catch {
            throw .unreadableRecord
        }
    }

    /// The field's value; `nil` where the record has none.
    func value(of field: Query.Field) -> FieldValue? {
        switch field {
        case .own(let name): own[name]
        case .system(let system): record.value(of: system)
        case .anySearchable: nil
        }
    }

    /// What the field is compared and sorted by: `absent` without a value, and for lists.
    package func key(of field: Query.Field) -> QueryKey {
        switch field {
        case .system(let system): record.key(of: system)
        case .own(let name): own[name].flatMap { QueryKey($0) } ?? .absent
        case .anySearchable: .absent
        }
    }

    /// The keys of a list's different members.
    package func memberKeys(of name: String) -> Set<QueryKey> {
        guard case .list(_, let members)? = own[name] else { return [] }
        return Set(members.compactMap { QueryKey($0) })
    }

    /// The different words in these fields together.
    package func tokens(of names: some Sequence<String>) -> Set<String> {
        var tokens: Set<String> = []
        for name in names {
            switch own[name] {
            case .string(let text)?: SearchTokens.insert(text, into: &tokens)
            case .list(.string, let members)?:
                for case .string(let text) in members { SearchTokens.insert(text, into: &tokens) }
            default: break
            }
        }
        return tokens
    }
}

extension RelayError {
    fileprivate static let unreadableRecord = RelayError(
        .internalError,
        "A stored record could not be read; the operator should check the store."
    )
}

extension StoredRecord {
    /// One of its own fields, taken out of the stored bytes alone; `nil` where there is none.
    ///
    /// Throws `internalError` where the stored bytes are not what was stored.
    func value(ofField name: String) throws(RelayError) -> FieldValue? {
        do {
            return try FieldsJSON.value(of: name, in: fields)
        } catch {
            throw .unreadableRecord
        }
    }

    /// A system field as a query sees it: a moment, or text.
    package func value(of field: Query.SystemField) -> FieldValue {
        switch field {
        case .recordName: .string(name)
        case .created: .timestamp(created.at)
        case .modified: .timestamp(modified.at)
        case .createdBy: .string(created.by.recordName)
        case .modifiedBy: .string(modified.by.recordName)
        case .changeTag: .string(changeTag)
        }
    }

    /// What a system field is compared and sorted by.
    package func key(of field: Query.SystemField) -> QueryKey {
        switch field {
        case .changeTag: .number(Int64(clamping: change))
        default: QueryKey(value(of: field)) ?? .absent
        }
    }
}

extension Query.Filter {
    /// The keys of its values.
    package var keys: [QueryKey] {
        values.map { value in
            if field == .system(.changeTag), case .string(let tag) = value {
                // No record has a negative change number: what is no tag equals none.
                return .number(UInt64(tag, radix: 36).flatMap { Int64(exactly: $0) } ?? -1)
            }
            return QueryKey(value) ?? .absent
        }
    }

    /// The words of its text.
    package var tokens: Set<String> {
        guard case .string(let text)? = values.first else { return [] }
        return SearchTokens.of(text)
    }
}
