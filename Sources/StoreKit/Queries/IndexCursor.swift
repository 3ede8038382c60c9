import Records
import RelayCore

/// Visits the entries of one range by key and then by name, forwards or backwards.
///
/// Reads in growing portions, so that any number of cursors can use the same statement and a short page costs little.
struct IndexCursor {
    private(set) var scan: IndexScan
    // Small, because cursors are copied: the zone is in the run.
    private let run: QueryRun
    private let probes: [IndexProbe]
    private var portion: [IndexEntry] = []
    private var next = 0
    private var size = 16
    private var isAtEnd = false

    /// Begins at `start`, which need not exist; `nil` means the first entry in the visiting order.
    ///
    /// `probes` are those that the entries' names must pass.
    init(
        _ source: IndexSource,
        range: KeyRange,
        ascending: Bool,
        start: IndexEntry?,
        probes: [IndexProbe],
        in run: QueryRun
    ) {
        scan = IndexScan(source, zone: run.zone.number, range: range, ascending)
        self.run = run
        self.probes = probes
        isAtEnd = range.isEmpty
        guard let start else { return }
        switch range.side(of: start.key) {
        case 0: scan.from = (start, true)
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
        try run.reader.portion(of: scan, limit: size, into: &portion)
        isAtEnd = portion.count < size
        if let last = portion.last { scan.from = (last, false) }
        try run.reader.prefetch(portion, in: run.zone, probing: probes)
        size = min(size * 2, 512)
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
