import Records
import RelayCore

/// Finds share roots below records of one zone, and caches the results while nothing is written to the zone.
///
/// A request may set the parents of a whole branch, record by record: each part of the branch is visited once.
struct ShareRootSearch {
    let zone: Int64
    fileprivate let roots: Set<String>
    /// Whether a share root is below each visited record.
    fileprivate var known: [String: Bool] = [:]

    /// The maximum number of records to visit for one write, since all other writes wait meanwhile.
    fileprivate static let limit = 200_000

    /// Searches downwards from a record until it finds a root.
    fileprivate mutating func isRoot(below name: String, childrenOf: (String) throws -> [String]) throws -> Bool {
        if let known = known[name] { return known }
        var way = [(name: name, rest: try childrenOf(name)[...])]
        // Parents may form a cycle, in which case all its records have the same result.
        var circle: [String] = []
        var isFound = false
        known[name] = false
        while !isFound, !way.isEmpty {
            guard let child = way[way.count - 1].rest.popFirst() else {
                way.removeLast()
                continue
            }
            if child == name { circle = way.map(\.name) }
            isFound = roots.contains(child) || known[child] == true
            guard known[child] == nil, !isFound else { continue }
            guard known.count < Self.limit else { throw RelayError.tooManyBelow }
            known[child] = false
            way.append((child, try childrenOf(child)[...]))
        }
        if isFound {
            for name in way.map(\.name) + circle { known[name] = true }
        }
        return isFound
    }
}

extension SQLiteWriter {
    func recordsAboveShareRoots(among names: [String], in zone: Zone) throws(RelayError) -> Set<String> {
        try attempt {
            var search = try rootSearch.flatMap { $0.zone == zone.number ? $0 : nil } ?? newSearch(in: zone)
            guard !search.roots.isEmpty else { return [] }
            // A second reference would make each change copy it.
            rootSearch = nil
            defer { rootSearch = search }
            var found: Set<String> = []
            for name in names where try search.isRoot(below: name, childrenOf: { try children(of: $0, in: zone) }) {
                found.insert(name)
            }
            return found
        }
    }

    private func newSearch(in zone: Zone) throws -> ShareRootSearch {
        let statement = try SQL("SELECT root FROM share WHERE zone = ? AND root IS NOT NULL", in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        var roots: Set<String> = []
        while try statement.step() { roots.insert(statement.text(0)) }
        return ShareRootSearch(zone: zone.number, roots: roots)
    }
}

extension RelayError {
    fileprivate static let tooManyBelow = RelayError(
        .badRequest,
        "Too many records are below the records to be shared or moved into a share. Move some of them first.",
        fineCode: .limitExceeded
    )
}
