/// Which records of one type to find, and in what order.
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

        /// Its type in the schema language.
        package var type: FieldType {
            switch self {
            case .recordName, .createdBy, .modifiedBy: .scalar(.reference)
            case .created, .modified: .scalar(.timestamp)
            case .changeTag: .scalar(.string)
            }
        }
    }

    /// What a filter or a sort looks at.
    package enum Field: Hashable, Sendable {
        case system(SystemField)
        /// A field of the type's own.
        case own(String)
        /// Every SEARCHABLE field together: what token filters without a field name look at.
        case anySearchable

        /// The field that a client's name means: one of the type's own first, since some of the names in use for the system
        /// fields are legal field names.
        package init(named name: String, in type: RecordType?) {
            if type?.fields[name] == nil, let field = SystemField(anyName: name) {
                self = .system(field)
            } else {
                self = .own(name)
            }
        }

        /// Its name as errors and the wire say it.
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
        /// One value; several for comparators that take lists.
        ///
        /// Of system fields: text for names and tags, milliseconds for moments. A record's name in one zone alone is a
        /// reference, until the zone is known that is asked.
        package var values: [FieldValue]
        /// For `near`: the circle's radius in metres.
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
        /// For locations: sorts by the distance from here.
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

    /// Where a page ended: what its last record is sorted by, its name and its zone, so that the next page starts just
    /// after it whatever was written meanwhile.
    package struct Position: Hashable, Sendable {
        /// One for each sort.
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
