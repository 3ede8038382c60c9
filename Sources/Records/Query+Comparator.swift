extension Query {
    /// The comparison of a filter.
    ///
    /// See Wire.md, "Comparators".
    package enum Comparator: String, Hashable, Sendable, CaseIterable {
        case equals = "EQUALS"
        case notEquals = "NOT_EQUALS"
        case lessThan = "LESS_THAN"
        case lessThanOrEquals = "LESS_THAN_OR_EQUALS"
        case greaterThan = "GREATER_THAN"
        case greaterThanOrEquals = "GREATER_THAN_OR_EQUALS"
        case `in` = "IN"
        case notIn = "NOT_IN"
        case beginsWith = "BEGINS_WITH"
        case notBeginsWith = "NOT_BEGINS_WITH"
        case near = "NEAR"
        case containsAllTokens = "CONTAINS_ALL_TOKENS"
        case containsAnyTokens = "CONTAINS_ANY_TOKENS"
        case listContains = "LIST_CONTAINS"
        case notListContains = "NOT_LIST_CONTAINS"
        case listContainsAny = "LIST_CONTAINS_ANY"
        case notListContainsAny = "NOT_LIST_CONTAINS_ANY"
        case listContainsAll = "LIST_CONTAINS_ALL"
        case notListContainsAll = "NOT_LIST_CONTAINS_ALL"
        case listMemberBeginsWith = "LIST_MEMBER_BEGINS_WITH"
        case notListMemberBeginsWith = "NOT_LIST_MEMBER_BEGINS_WITH"

        /// The comparator of which this one is the negation; `nil` for a positive comparator.
        package var opposite: Comparator? {
            switch self {
            case .notEquals: .equals
            case .notIn: .in
            case .notBeginsWith: .beginsWith
            case .notListContains: .listContains
            case .notListContainsAny: .listContainsAny
            case .notListContainsAll: .listContainsAll
            case .notListMemberBeginsWith: .listMemberBeginsWith
            default: nil
            }
        }

        package var isRange: Bool {
            switch self {
            case .lessThan, .lessThanOrEquals, .greaterThan, .greaterThanOrEquals: true
            default: false
            }
        }

        /// Whether it tests if a scalar equals one of its values.
        package var isEquality: Bool {
            switch self {
            case .equals, .notEquals, .in, .notIn: true
            default: false
            }
        }

        package var looksForTokens: Bool { self == .containsAllTokens || self == .containsAnyTokens }

        /// Whether it takes several values.
        package var takesList: Bool {
            switch self {
            case .in, .notIn, .listContainsAny, .notListContainsAny, .listContainsAll, .notListContainsAll: true
            default: false
            }
        }

        /// Returns the type that its values must have for a field of `type`; `nil` if it does not apply to such fields.
        package func valueType(for type: FieldType) -> FieldType.Scalar? {
            switch (self, type) {
            case (_, .scalar(.asset)), (_, .list(.asset)): nil
            case (.equals, .scalar(let scalar)), (.notEquals, .scalar(let scalar)), (.in, .scalar(let scalar)),
                (.notIn, .scalar(let scalar)):
                scalar
            case (_, .scalar(let scalar)) where isRange:
                scalar == .reference || scalar == .location ? nil : scalar
            case (.beginsWith, .scalar(.string)), (.notBeginsWith, .scalar(.string)),
                (.listMemberBeginsWith, .list(.string)), (.notListMemberBeginsWith, .list(.string)):
                .string
            case (_, .scalar(.string)) where looksForTokens, (_, .list(.string)) where looksForTokens: .string
            case (.near, .scalar(.location)): .location
            case (.listContains, .list(let scalar)), (.notListContains, .list(let scalar)),
                (.listContainsAny, .list(let scalar)), (.notListContainsAny, .list(let scalar)),
                (.listContainsAll, .list(let scalar)), (.notListContainsAll, .list(let scalar)):
                scalar
            default: nil
            }
        }

        /// Returns the type that its values must have for a system field; `nil` if it does not apply to the field.
        package func valueType(for field: SystemField) -> FieldType.Scalar? {
            let type: FieldType.Scalar =
                switch field {
                case .created, .modified: .timestamp
                case .createdBy, .modifiedBy: .reference
                // Record names are compared as text, although the schema declares them as references.
                case .recordName, .changeTag: .string
                }
            return looksForTokens || valueType(for: .scalar(type)) == nil ? nil : type
        }
    }
}
