import Records
package import RelayCore

/// Finds share roots below records of one zone, and keeps the results while nothing is written to the zone.
///
/// A request may set the parents of a whole branch, record by record: each part of the branch is visited once. Reads one
/// level of all branches at a time.
package struct ShareRootSearch {
    package let zone: Int64
    private let roots: Set<String>
    /// Whether a share root is below each record, where that is known.
    private var known: [String: Bool] = [:]

    /// The maximum number of records to visit for one write, since all other writes wait meanwhile.
    private static let limit = 200_000
    private static let portion = 1_000

    package init(in zone: Zone, rows: some SharingRows) throws {
        self.zone = zone.number
        roots = Set(try rows.shares(of: zone.number).compactMap(\.root))
    }

    /// Returns those of the records that have a share root below them.
    package mutating func recordsAboveRoots(among names: [String], rows: some SharingRows) throws -> Set<String> {
        guard !roots.isEmpty else { return [] }
        try explore(names.filter { known[$0] == nil }, rows)
        return Set(names.filter { known[$0] == true })
    }

    private mutating func explore(_ starts: [String], _ rows: some SharingRows) throws {
        /// The start from which each visited record was reached.
        var origins = Dictionary(starts.map { ($0, $0) }) { first, _ in first }
        var parents: [String: String] = [:]
        var above: Set<String> = []
        /// Marks everything on the way up to the start, and on from there if it is below another start.
        func mark(_ name: String) {
            var next: String? = name
            while let name = next, above.insert(name).inserted { next = parents[name] }
        }
        var level = starts
        while !level.isEmpty {
            var below: [String] = []
            for start in stride(from: 0, to: level.count, by: Self.portion) {
                // What is left below a start with a root below it does not matter.
                let part = level[start..<min(start + Self.portion, level.count)].filter { name in
                    origins[name].map { !above.contains($0) } ?? true
                }
                guard !part.isEmpty else { continue }
                for link in try rows.childNames(of: part, in: zone) {
                    parents[link.name] = link.parent
                    if roots.contains(link.name) || known[link.name] == true || above.contains(link.name) {
                        mark(link.parent)
                    }
                    guard origins[link.name] == nil, known[link.name] == nil else { continue }
                    guard known.count + origins.count < Self.limit else { throw RelayError.tooManyBelow }
                    origins[link.name] = origins[link.parent]
                    below.append(link.name)
                }
            }
            level = below
        }
        for (name, start) in origins {
            if above.contains(name) { known[name] = true } else if !above.contains(start) { known[name] = false }
        }
    }
}

extension RelayError {
    fileprivate static let tooManyBelow = RelayError(
        .badRequest,
        "Too many records are below the records to be shared or moved into a share. Move some of them first.",
        fineCode: .limitExceeded
    )
}
