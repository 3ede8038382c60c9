import Records
import RelayCore

/// The checks for a record that an index has offered: first against other indexes, then on the record itself.
struct CandidateCheck {
    private let run: QueryRun
    let probes: [IndexProbe]
    private let match: QueryMatch
    /// The list or text field that may offer a record several times, with the visited ranges.
    private let repeated: (target: IndexTarget, ranges: [KeyRange])?
    /// The type's own fields that the filters, the order and `repeated` need.
    let fieldNames: Set<String>

    /// Skips filters on the index `target` that the visited keys `keys` answer.
    ///
    /// `ranges` are the visited ranges, for an index that may contain a record under several keys.
    init(
        _ filters: [Query.Filter],
        run: QueryRun,
        through target: IndexTarget?,
        keys: [QueryKey]? = nil,
        ranges: [KeyRange]? = nil
    ) {
        self.run = run
        var probes: [IndexProbe] = []
        var rest: [Query.Filter] = []
        for filter in filters {
            if let keys, IndexTarget(filter) == target, filter.isAnswered(by: keys) { continue }
            if let probe = filter.probe, case .entries(let number)? = run.source(of: IndexTarget(filter)) {
                probes.append(IndexProbe(index: number, probe: probe))
            } else {
                rest.append(filter)
            }
        }
        self.probes = probes
        match = QueryMatch(rest, type: run.type)
        if let target, let ranges, ranges.count > 1 || ranges.first?.point == nil, target.hasSeveralKeys(in: run.type) {
            repeated = (target, ranges)
        } else {
            repeated = nil
        }
        fieldNames = match.fieldNames.union(run.order.fieldNames)
            .union(repeated.map { $0.target.fieldNames(in: run.type) } ?? [])
    }

    /// Returns whether the other indexes contain this record as its filters require.
    func passesProbes(_ name: String) throws -> Bool {
        for probe in probes {
            let isThere: (QueryKey) throws -> Bool = { key in
                try run.reader.contains(key, of: name, index: probe.index, in: run.zone.number)
            }
            let (keys, wantsAll) = (probe.probe.keys, probe.probe.wantsAll)
            let matches = try wantsAll ? keys.allSatisfy(isThere) : keys.contains(where: isThere)
            guard matches != probe.probe.isNegative else { return false }
        }
        return true
    }

    /// Returns whether the remaining filters match, and this entry is the one that stands for the record.
    func matches(for values: QueryValues, under key: QueryKey) -> Bool {
        guard match.matches(for: values) else { return false }
        guard let repeated else { return true }
        let offered = repeated.target.keys(of: values, in: run.type)
            .filter { key in repeated.ranges.contains { $0.side(of: key) == 0 } }
        return offered.min() == key
    }
}

extension Query.Filter {
    /// Returns whether the filter matches exactly the entries of its own index with these keys.
    fileprivate func isAnswered(by keys: [QueryKey]) -> Bool {
        guard let probe, !probe.isNegative, !probe.wantsAll || probe.keys.count == 1 else { return false }
        return probe.keys == Array(Set(keys)).sorted()
    }
}

extension IndexTarget {
    /// Returns whether a record may have several keys.
    fileprivate func hasSeveralKeys(in type: RecordType) -> Bool {
        switch self {
        case .words, .allWords: true
        case .value(.own(let name)): if case .list? = type.fields[name]?.type { true } else { false }
        case .value: false
        }
    }
}
