/// Which records of one type to find, and in what order.
///
/// Wire reference 7.
package struct Query: Hashable, Sendable {
    /// Fields that every record has, whatever its type.
    ///
    /// Wire reference 7.2.
    package enum SystemField: String, Hashable, Sendable, CaseIterable {
        case recordName = "___recordID"
        case created = "___createTime"
        case modified = "___modTime"
        case createdBy = "___createdBy"
        case modifiedBy = "___modifiedBy"
        case changeTag = "___etag"

        /// Reads any of the names in use for one of these fields; `nil` for a field of the type's own.
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
    }

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
    }

    package struct Filter: Hashable, Sendable {
        package var field: SystemField
        package var comparator: Comparator
        /// One value; several for `in` and `notIn`.
        ///
        /// Text for names and tags, milliseconds for moments.
        package var values: [FieldValue]

        package init(_ field: SystemField, _ comparator: Comparator, _ values: [FieldValue]) {
            self.field = field
            self.comparator = comparator
            self.values = values
        }
    }

    package struct Sort: Hashable, Sendable {
        package var field: SystemField
        package var isAscending: Bool

        package init(_ field: SystemField, ascending: Bool = true) {
            self.field = field
            self.isAscending = ascending
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
