import GRDB
import Records
import RelayCore

extension SQLiteReader {
    func records(
        matching query: Query,
        in zone: Zone,
        after position: QueryPosition?,
        limit: Int
    ) throws(RelayError) -> [StoredRecord] {
        guard let type = names.typeNumbers[query.recordType] else { return [] }
        return try attempt {
            var sql = QuerySQL(query, zone: zone, type: type, numberOfUser: { try self.number(of: $0) })
            try sql.build(after: position)
            let statement = try SQL(sql.text + " LIMIT \(limit)", in: database)
            defer { statement.reset() }
            for (index, value) in sql.arguments.enumerated() {
                switch value {
                case .text(let text): statement.bind(Int32(index + 1), text)
                case .number(let number): statement.bind(Int32(index + 1), number)
                }
            }
            var found: [StoredRecord] = []
            try RunTime.limited(on: database) {
                while try statement.step() { found.append(try record(in: statement)) }
            }
            return found
        }
    }
}

/// A query as SQL with its arguments; values never become part of the text.
private struct QuerySQL {
    enum Argument {
        case text(String)
        case number(Int64)
    }

    private let query: Query
    private let zone: Zone
    private let type: Int64
    private let numberOfUser: (UserID) throws -> Int64?
    private(set) var text = ""
    private(set) var arguments: [Argument] = []

    init(_ query: Query, zone: Zone, type: Int64, numberOfUser: @escaping (UserID) throws -> Int64?) {
        self.query = query
        self.zone = zone
        self.type = type
        self.numberOfUser = numberOfUser
    }

    mutating func build(after position: QueryPosition?) throws {
        // The public zone's number stands as text: only so does SQLite see that its partial index serves.
        text = """
            SELECT \(SQLiteReader.recordColumns) FROM \(source)
            WHERE r.zone = \(zone.number) AND r.deleted = 0 AND r.type = \(type)
            """
        for filter in query.filters { text += " AND " + (try condition(filter)) }
        if let position { text += " AND " + (try keyset(after: position)) }
        let sorts = query.sorts.map { "\(column($0.field)) \($0.isAscending ? "ASC" : "DESC")" } + ["r.name ASC"]
        text += " ORDER BY " + sorts.joined(separator: ", ")
    }

    /// Where the rows come from: by name where names are given, else through the zone's runs.
    ///
    /// The public zone has an index of its own.
    private var source: String {
        let isByName = query.filters.contains {
            $0.field == .recordName && ($0.comparator == .equals || $0.comparator == .in)
        }
        guard zone.tracksChanges, !isByName else { return "record r" }
        return """
            zone_run z CROSS JOIN record r INDEXED BY record_by_run
            ON z.zone = \(zone.number) AND r.run = z.run AND r.zone = z.zone
            """
    }

    private func column(_ field: Query.SystemField) -> String {
        switch field {
        case .recordName: "r.name"
        case .created: "r.created_at"
        case .modified: "r.modified_at"
        case .createdBy: "r.created_by"
        case .modifiedBy: "r.modified_by"
        case .changeTag: "r.change"
        }
    }

    private mutating func condition(_ filter: Query.Filter) throws -> String {
        let column = column(filter.field)
        let marks = try filter.values.map { try mark($0, for: filter.field) }
        switch filter.comparator {
        case .equals: return "\(column) = \(marks[0])"
        case .notEquals: return "\(column) <> \(marks[0])"
        case .lessThan: return "\(column) < \(marks[0])"
        case .lessThanOrEquals: return "\(column) <= \(marks[0])"
        case .greaterThan: return "\(column) > \(marks[0])"
        case .greaterThanOrEquals: return "\(column) >= \(marks[0])"
        case .in: return "\(column) IN (\(marks.joined(separator: ", ")))"
        case .notIn: return "\(column) NOT IN (\(marks.joined(separator: ", ")))"
        case .beginsWith: return "substr(\(column), 1, length(\(marks[0]))) = \(marks[0])"
        case .notBeginsWith: return "substr(\(column), 1, length(\(marks[0]))) <> \(marks[0])"
        }
    }

    /// Rows after a position in the query's order: later in the first sort, or equal there and later in the next, and so on.
    private mutating func keyset(after position: QueryPosition) throws -> String {
        let keys = Array(zip(query.sorts, position.sortValues))
        var alternatives: [String] = []
        for last in 0...keys.count {
            var terms: [String] = []
            for (sort, value) in keys.prefix(last) {
                terms.append("\(column(sort.field)) = \(try mark(value, for: sort.field))")
            }
            if last < keys.count {
                let (sort, value) = keys[last]
                terms.append(
                    "\(column(sort.field)) \(sort.isAscending ? ">" : "<") \(try mark(value, for: sort.field))"
                )
            } else {
                arguments.append(.text(position.recordName))
                terms.append("r.name > ?\(arguments.count)")
            }
            alternatives.append(terms.joined(separator: " AND "))
        }
        // A plain bound on the first key beside the alternatives lets SQLite start in the middle of an index.
        let bound = try keys.first.map { sort, value in
            "\(column(sort.field)) \(sort.isAscending ? ">=" : "<=") \(try mark(value, for: sort.field)) AND "
        }
        return (bound ?? "") + "(" + alternatives.joined(separator: " OR ") + ")"
    }

    /// Adds an argument and gives its mark; users and change tags become the numbers that the table holds.
    private mutating func mark(_ value: FieldValue, for field: Query.SystemField) throws -> String {
        switch (field, value) {
        case (.createdBy, .string(let name)), (.modifiedBy, .string(let name)):
            arguments.append(.number(try numberOfUser(UserID(name)) ?? -1))
        case (.changeTag, .string(let tag)):
            arguments.append(.number(UInt64(tag, radix: 36).flatMap { Int64(exactly: $0) } ?? -1))
        case (_, .string(let text)): arguments.append(.text(text))
        case (_, .timestamp(let moment)): arguments.append(.number(moment.milliseconds))
        default: throw RelayError.badRequest("A filter's value is not of the field's type.")
        }
        return "?\(arguments.count)"
    }
}
