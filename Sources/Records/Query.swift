/// A query: the record type, filters and sort descriptors.
///
/// See Wire.md, "Queries".
package struct Query: Hashable, Sendable {
    /// Fields that every record has, whatever its type.
    ///
    /// See Wire.md, "System fields".
    package enum SystemField: String, Hashable, Sendable, CaseIterable {
        case recordName = "___recordID"
        case created = "___createTime"
        case modified = "___modTime"
        case createdBy = "___createdBy"
        case modifiedBy = "___modifiedBy"
        case changeTag = "___etag"

        /// Parses any of the names in use for a system field; `nil` for any other name.
        package init?(anyName name: String) {
            switch name {
            case "___recordID", "recordName", "recordID": self = .recordName
            case "___createTime", "createdTimestamp", "creationDate": self = .created
            case "___modTime", "modifiedTimestamp", "modificationDate": self = .modified
            case "___createdBy", "createdUserRecordName", "creatorUserRecordID": self = .createdBy
            case "___modifiedBy", "modifiedUserRecordName", "lastModifiedUserRecordID": self = .modifiedBy
            case "___etag", "recordChangeTag": self = .changeTag
            default: return nil
            }
        }

        /// The field's type in the schema language.
        package var type: FieldType {
            switch self {
            case .recordName, .createdBy, .modifiedBy: .scalar(.reference)
            case .created, .modified: .scalar(.timestamp)
            case .changeTag: .scalar(.string)
            }
        }
    }

    /// The field of a filter or a sort descriptor.
    package enum Field: Hashable, Sendable {
        case system(SystemField)
        /// A field of the record type.
        case own(String)
        /// All SEARCHABLE fields together, as in token filters without a field name.
        case anySearchable

        /// Returns the field with this name; a field of the type takes precedence, because some names of system fields
        /// are legal field names.
        package init(named name: String, in type: RecordType?) {
            if type?.fields[name] == nil, let field = SystemField(anyName: name) {
                self = .system(field)
            } else {
                self = .own(name)
            }
        }

        /// The field's name in errors and on the wire.
        package var name: String {
            switch self {
            case .system(let field): field.rawValue
            case .own(let name): name
            case .anySearchable: "self"
            }
        }
    }

    package struct Filter: Hashable, Sendable {
        package var field: Field
        package var comparator: Comparator
        /// One value, or several for comparators that take lists.
        ///
        /// For system fields: text for names and tags, milliseconds for times. A record name that is valid in one zone
        /// only is a reference until the zone to query is known.
        package var values: [FieldValue]
        /// For `near`: the radius in metres.
        package var distance: Double?

        package init(_ field: Field, _ comparator: Comparator, _ values: [FieldValue], distance: Double? = nil) {
            self.field = field
            self.comparator = comparator
            self.values = values
            self.distance = distance
        }

        package init(_ field: SystemField, _ comparator: Comparator, _ values: [FieldValue]) {
            self.init(.system(field), comparator, values)
        }
    }

    package struct Sort: Hashable, Sendable {
        package var field: Field
        package var isAscending: Bool
        /// For locations: sorts by the distance to this place.
        package var relativeLocation: Location?

        package init(_ field: Field, ascending: Bool = true, relativeTo location: Location? = nil) {
            self.field = field
            self.isAscending = ascending
            self.relativeLocation = location
        }

        package init(_ field: SystemField, ascending: Bool = true) {
            self.init(.system(field), ascending: ascending)
        }
    }

    /// The position after a page's last record: its sort keys, name and zone.
    ///
    /// The next page starts just after it, whatever was written in the meantime.
    package struct Position: Hashable, Sendable {
        /// One per sort descriptor.
        package var keys: [QueryKey]
        package var recordName: String
        package var zone: ZoneID

        package init(keys: [QueryKey], recordName: String, zone: ZoneID) {
            self.keys = keys
            self.recordName = recordName
            self.zone = zone
        }
    }

    package var recordType: String
    package var filters: [Filter]
    package var sorts: [Sort]

    package init(recordType: String, filters: [Filter] = [], sorts: [Sort] = []) {
        self.recordType = recordType
        self.filters = filters
        self.sorts = sorts
    }
}

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
