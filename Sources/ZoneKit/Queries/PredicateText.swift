import Foundation
import Records

extension NSPredicate {
    /// The predicate that asks for all of these: what a query that comes from elsewhere shows a program.
    ///
    /// `zone` is that of the records that are asked for. `nil` where the format language has no words for one of the filters.
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
        // Not one that says something else than was asked.
        guard case .filters(let read) = PredicateForm(predicate), read == filters else { return nil }
        return predicate
    }
}

extension Query.Filter {
    /// The comparison in the format language, with arguments for the field, where it is one, and for the values.
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

    /// The same with field and values in place of the arguments.
    var phrase: String {
        let parts = (format ?? "%K \(comparator.rawValue) %@").replacingOccurrences(of: "%K", with: field.programName)
            .components(separatedBy: "%@")
        let operand = comparator.takesList ? FieldValue.list(.string, values).phrase : values.first?.phrase
        let operands = [operand ?? "nil"] + (distance.map { ["\($0)"] } ?? [])
        return zip(parts, operands + [""]).map { $0 + $1 }.joined()
    }

    /// `nil` for values that no program has a type for, and for names that no field has.
    fileprivate func arguments(in zone: CKRecordZone.ID) -> [Any]? {
        let objects = values.compactMap { object($0, in: zone) }
        guard objects.count == values.count, let first = objects.first, field.isNamed else { return nil }
        var arguments: [Any] = field == .anySearchable ? [] : [field.programName]
        arguments.append(comparator.takesList ? objects : first)
        if let distance { arguments.append(NSNumber(value: distance)) }
        return arguments
    }

    /// A value as a program writes it: records and users by their IDs, where they are not compared as text.
    private func object(_ value: FieldValue, in zone: CKRecordZone.ID) -> Any? {
        guard case .system(let system) = field, system.type == .scalar(.reference), let name = value.text,
            comparator.isEquality
        else { return value.object(in: zone) }
        return CKRecord.ID(recordName: name, zoneID: system == .recordName ? zone : .default)
    }
}

extension Query.Field {
    /// Whether its name is one that a field can have: Apple's own reader of formats ends a program for some others.
    fileprivate var isNamed: Bool {
        programName.first?.isLetter == true
            && programName.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
    }

    /// The name that programs have for it.
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
