package import Records
import Wire

/// The values of one record that queries read: the named fields, decoded once, and its system fields.
package struct QueryValues {
    private let record: StoredRecord
    private let own: [String: FieldValue]

    /// Throws `internalError` if the stored bytes are corrupt.
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

    /// Returns the field's value; `nil` if the record has none.
    func value(of field: Query.Field) -> FieldValue? {
        switch field {
        case .own(let name): own[name]
        case .system(let system): record.value(of: system)
        case .anySearchable: nil
        }
    }

    /// Returns the key for comparing and sorting by the field: `absent` for a missing value and for lists.
    package func key(of field: Query.Field) -> QueryKey {
        switch field {
        case .system(let system): record.key(of: system)
        case .own(let name): own[name].flatMap { QueryKey($0) } ?? .absent
        case .anySearchable: .absent
        }
    }

    /// Returns the distinct keys of a list's members.
    package func memberKeys(of name: String) -> Set<QueryKey> {
        guard case .list(_, let members)? = own[name] else { return [] }
        return Set(members.compactMap { QueryKey($0) })
    }

    /// Returns the distinct words in these fields together.
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
    /// Returns one field, decoded without the others; `nil` if the record does not have it.
    ///
    /// Throws `internalError` if the stored bytes are corrupt.
    func value(ofField name: String) throws(RelayError) -> FieldValue? {
        do {
            return try FieldsJSON.value(of: name, in: fields)
        } catch {
            throw .unreadableRecord
        }
    }

    /// Returns a system field's value as queries see it: a timestamp or text.
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

    /// Returns the key for comparing and sorting by a system field.
    package func key(of field: Query.SystemField) -> QueryKey {
        switch field {
        case .changeTag: .number(Int64(clamping: change))
        default: QueryKey(value(of: field)) ?? .absent
        }
    }
}

extension Query.Filter {
    /// The comparison keys of the filter's values.
    package var keys: [QueryKey] {
        values.map { value in
            if field == .system(.changeTag), case .string(let tag) = value {
                // Change numbers are not negative, so an invalid tag equals nothing.
                return .number(UInt64(tag, radix: 36).flatMap { Int64(exactly: $0) } ?? -1)
            }
            return QueryKey(value) ?? .absent
        }
    }

    /// The words of the filter's text.
    package var tokens: Set<String> {
        guard case .string(let text)? = values.first else { return [] }
        return SearchTokens.of(text)
    }
}
