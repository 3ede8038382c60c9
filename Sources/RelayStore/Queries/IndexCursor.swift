import GRDB
import Records
import RelayCore

/// Where the entries of an index are stored.
enum IndexSource: Hashable, Sendable {
    /// In `field_value`, under this number.
    case entries(Int64)
    /// In the public zone's index of this record type by modification time.
    case publicModified(type: Int64)
}

/// An entry of an index: a key and the name of a record.
struct IndexEntry: Hashable, Sendable {
    var key: QueryKey
    var name: String
}

/// Visits the entries of one range by key and then by name, forwards or backwards.
///
/// Reads in growing portions, so that any number of cursors can use the same statement and a short page costs little.
struct IndexCursor {
    private let source: IndexSource
    private let zone: Int64
    private let range: KeyRange
    private let isAscending: Bool
    private let database: Database
    private var portion: [IndexEntry] = []
    private var next = 0
    private var size = 16
    private var isAtEnd = false
    /// The last entry that was read, or the one to start at.
    private var from: IndexEntry?
    private var includesFrom = false

    /// Begins at `start`, which need not exist; `nil` means the first entry in the visiting order.
    init(
        _ source: IndexSource,
        zone: Int64,
        range: KeyRange,
        ascending: Bool = true,
        start: IndexEntry? = nil,
        in database: Database
    ) {
        self.source = source
        self.zone = zone
        self.range = range
        self.isAscending = ascending
        self.database = database
        isAtEnd = range.isEmpty
        guard let start else { return }
        switch range.side(of: start.key) {
        case 0:
            from = start
            includesFrom = true
        case let side: isAtEnd = isAtEnd || (side > 0) == ascending
        }
    }

    /// Returns the next entry without advancing.
    mutating func peek() throws -> IndexEntry? {
        if next == portion.count { try readPortion() }
        return next < portion.count ? portion[next] : nil
    }

    mutating func advance() throws -> IndexEntry? {
        let entry = try peek()
        if entry != nil { next += 1 }
        return entry
    }

    private mutating func readPortion() throws {
        portion.removeAll(keepingCapacity: true)
        next = 0
        guard !isAtEnd else { return }
        let scan = IndexScan(source, zone: zone, range: range, from: from.map { ($0, includesFrom) }, isAscending)
        let statement = try scan.statement(selecting: scan.columns, limit: size, in: database)
        defer { statement.reset() }
        while try statement.step() { portion.append(IndexEntry(key: statement.key(0), name: statement.text(1))) }
        isAtEnd = portion.count < size
        if let last = portion.last {
            from = last
            includesFrom = false
        }
        size = min(size * 2, 512)
    }
}

/// The SQL that scans one range of an index; tests check its query plan.
struct IndexScan {
    let source: IndexSource
    let zone: Int64
    let range: KeyRange
    let from: (entry: IndexEntry, isIncluded: Bool)?
    let isAscending: Bool

    init(
        _ source: IndexSource,
        zone: Int64,
        range: KeyRange,
        from: (entry: IndexEntry, isIncluded: Bool)? = nil,
        _ isAscending: Bool = true
    ) {
        self.source = source
        self.zone = zone
        self.range = range
        self.from = from
        self.isAscending = isAscending
    }

    private var key: String {
        switch source {
        case .entries: "value"
        case .publicModified: "modified_at"
        }
    }

    var columns: String { "\(key), name" }

    // The entry to continue from is inside the range, so the bound on its side is redundant. With two bounds on one
    // side, SQLite might start from the wrong one.
    private var lower: KeyRange.Bound? { from != nil && isAscending ? nil : range.lower }
    private var upper: KeyRange.Bound? { from != nil && !isAscending ? nil : range.upper }

    /// The statement, apart from the columns to select.
    ///
    /// The parameters are: 1 the index or type, 2 the zone, 3 and 4 the bounds, 5 and 6 the entry to continue from, 7
    /// the limit.
    private func text(selecting columns: String) -> String {
        var text: String
        switch source {
        case .entries: text = "SELECT \(columns) FROM field_value WHERE field = ?1 AND zone = ?2"
        // The zone is a literal, so that SQLite uses the partial index.
        case .publicModified:
            text = """
                SELECT \(columns) FROM record INDEXED BY public_by_modified
                WHERE type = ?1 AND zone = 1 AND deleted = 0 AND ?2 = 1
                """
        }
        if let lower { text += " AND \(key) \(lower.isInclusive ? ">=" : ">") ?3" }
        if let upper { text += " AND \(key) \(upper.isInclusive ? "<=" : "<") ?4" }
        if let from {
            let sign = (isAscending ? ">" : "<") + (from.isIncluded ? "=" : "")
            text += " AND (\(key), name) \(sign) (?5, ?6)"
        }
        let direction = isAscending ? "ASC" : "DESC"
        return text + " ORDER BY \(key) \(direction), name \(direction) LIMIT ?7"
    }

    func text() -> String { text(selecting: columns) }

    func statement(selecting columns: String, limit: Int, in database: Database) throws -> SQL {
        let statement = try SQL(text(selecting: columns), in: database)
        bind(to: statement, limit: limit)
        return statement
    }

    private func bind(to statement: SQL, limit: Int) {
        switch source {
        case .entries(let number): statement.bind(1, number)
        case .publicModified(let type): statement.bind(1, type)
        }
        statement.bind(2, zone)
        if let lower { statement.bind(3, lower.key) }
        if let upper { statement.bind(4, upper.key) }
        if let from {
            statement.bind(5, from.entry.key)
            statement.bind(6, from.entry.name)
        }
        statement.bind(7, Int64(limit))
    }

    /// Counts the entries, up to `limit`.
    func count(upTo limit: Int, in database: Database) throws -> Int {
        guard !range.isEmpty else { return 0 }
        let statement = try SQL("SELECT count(*) FROM (\(text(selecting: "1")))", in: database)
        defer { statement.reset() }
        bind(to: statement, limit: limit)
        return try statement.step() ? Int(statement.int(0)) : 0
    }
}

/// Visits the entries of several keys together by name, forwards or backwards, and each name once.
struct MergedCursor {
    private var cursors: [IndexCursor]
    private let isAscending: Bool
    private var last: String?

    /// Each of `cursors` visits one key.
    init(_ cursors: [IndexCursor], ascending: Bool) {
        self.cursors = cursors
        self.isAscending = ascending
    }

    mutating func advance() throws -> IndexEntry? {
        while true {
            var first: (index: Int, entry: IndexEntry)?
            for index in cursors.indices {
                guard let entry = try cursors[index].peek() else { continue }
                if let known = first, known.entry.name == entry.name || (known.entry.name < entry.name) == isAscending {
                    continue
                }
                first = (index, entry)
            }
            guard let first else { return nil }
            _ = try cursors[first.index].advance()
            guard first.entry.name != last else { continue }
            last = first.entry.name
            return first.entry
        }
    }
}
