import Foundation
import Records

extension NSPredicate {
    /// Returns a predicate with these conditions, to show the app the predicate of a decoded or fetched query.
    ///
    /// `zone` is the zone of the records. Returns `nil` if the format language cannot express one of the filters.
    static func asking(_ filters: [Query.Filter], in zone: CKRecordZone.ID) -> NSPredicate? {
        guard !filters.isEmpty else { return NSPredicate(value: true) }
        var clauses: [String] = []
        var arguments: [Any] = []
        for filter in filters {
            guard let format = filter.format, let values = filter.arguments(in: zone) else { return nil }
            clauses.append(format)
            arguments += values
        }
        let predicate = NSPredicate(format: clauses.joined(separator: " AND "), argumentArray: arguments)
        // Not a predicate with another meaning than the filters.
        guard case .filters(let read) = PredicateForm(predicate), read == filters else { return nil }
        return predicate
    }
}

extension Query.Filter {
    /// The comparison in the format language, with arguments for the field, if there is one, and for the values.
    fileprivate var format: String? {
        switch comparator {
        case .equals: "%K == %@"
        case .notEquals: "%K != %@"
        case .lessThan: "%K < %@"
        case .lessThanOrEquals: "%K <= %@"
        case .greaterThan: "%K > %@"
        case .greaterThanOrEquals: "%K >= %@"
        case .in: "%K IN %@"
        case .notIn: "NOT (%K IN %@)"
        case .beginsWith: "%K BEGINSWITH %@"
        case .notBeginsWith: "NOT (%K BEGINSWITH %@)"
        case .near: "distanceToLocation:fromLocation:(%K, %@) < %@"
        case .containsAllTokens: field == .anySearchable ? "allTokens TOKENMATCHES[cdl] %@" : "%K TOKENMATCHES[cdl] %@"
        case .listContains: "%K CONTAINS %@"
        case .notListContains: "NOT (%K CONTAINS %@)"
        case .listContainsAny: "ANY %K IN %@"
        case .notListContainsAny: "NOT (ANY %K IN %@)"
        case .listMemberBeginsWith: "ANY %K BEGINSWITH %@"
        case .notListMemberBeginsWith: "NOT (ANY %K BEGINSWITH %@)"
        case .containsAnyTokens: field == .anySearchable ? "ANY tokenize(%@, 'cdl') IN allTokens" : nil
        case .listContainsAll, .notListContainsAll: nil
        }
    }

    /// The comparison with the field and the values in place of the arguments.
    var phrase: String {
        let parts = (format ?? "%K \(comparator.rawValue) %@").replacingOccurrences(of: "%K", with: field.programName)
            .components(separatedBy: "%@")
        let operand = comparator.takesList ? FieldValue.list(.string, values).phrase : values.first?.phrase
        let operands = [operand ?? "nil"] + (distance.map { ["\($0)"] } ?? [])
        return zip(parts, operands + [""]).map { $0 + $1 }.joined()
    }

    /// Returns the arguments; `nil` for values without a Swift type, and for invalid field names.
    fileprivate func arguments(in zone: CKRecordZone.ID) -> [Any]? {
        let objects = values.compactMap { object($0, in: zone) }
        guard objects.count == values.count, let first = objects.first, field.isNamed else { return nil }
        var arguments: [Any] = field == .anySearchable ? [] : [field.programName]
        arguments.append(comparator.takesList ? objects : first)
        if let distance { arguments.append(NSNumber(value: distance)) }
        return arguments
    }

    /// Returns a value in the type that apps use: record IDs for records and users, unless they are compared as text.
    private func object(_ value: FieldValue, in zone: CKRecordZone.ID) -> Any? {
        guard case .system(let system) = field, system.type == .scalar(.reference), let name = value.text,
            comparator.isEquality
        else { return value.object(in: zone) }
        return CKRecord.ID(recordName: name, zoneID: system == .recordName ? zone : .default)
    }
}

extension Query.Field {
    /// Whether the name is valid for a field.
    ///
    /// Apple's parser of formats traps on some other names.
    fileprivate var isNamed: Bool {
        programName.first?.isLetter == true
            && programName.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
    }

    /// The name of the field in apps.
    var programName: String {
        switch self {
        case .system(.recordName): CKRecord.SystemFieldKey.recordID
        case .system(.created): CKRecord.SystemFieldKey.creationDate
        case .system(.modified): CKRecord.SystemFieldKey.modificationDate
        case .system(.createdBy): CKRecord.SystemFieldKey.creatorUserRecordID
        case .system(.modifiedBy): CKRecord.SystemFieldKey.lastModifiedUserRecordID
        case .system(.changeTag): "recordChangeTag"
        case .own(let name): name
        case .anySearchable: "self"
        }
    }
}
