package import Records
import RelayCore

/// A range of consecutive keys in an index.
package struct KeyRange: Hashable, Sendable {
    package struct Bound: Hashable, Sendable {
        package var key: QueryKey
        package var isInclusive: Bool

        package static func including(_ key: QueryKey) -> Bound { Bound(key: key, isInclusive: true) }
        package static func excluding(_ key: QueryKey) -> Bound { Bound(key: key, isInclusive: false) }
    }

    /// `nil` for a range from the first entry, which is one of a record without a value.
    package var lower: Bound?
    /// `nil` for a range to the last entry.
    package var upper: Bound?

    package init(lower: Bound?, upper: Bound?) {
        self.lower = lower
        self.upper = upper
    }

    package static let everything = KeyRange(lower: nil, upper: nil)
    /// All records that have a value.
    package static let present = KeyRange(lower: .excluding(.absent), upper: nil)

    package static func only(_ key: QueryKey) -> KeyRange { KeyRange(lower: .including(key), upper: .including(key)) }

    /// The key of a range that contains exactly one.
    package var point: QueryKey? {
        guard let lower, lower == upper, lower.isInclusive else { return nil }
        return lower.key
    }

    package var isEmpty: Bool {
        guard let lower, let upper else { return false }
        if lower.key == upper.key { return !(lower.isInclusive && upper.isInclusive) }
        return upper.key < lower.key
    }

    /// Returns -1 for a key before the range, 0 inside it, 1 after it.
    package func side(of key: QueryKey) -> Int {
        if let lower, key < lower.key || (key == lower.key && !lower.isInclusive) { return -1 }
        if let upper, key > upper.key || (key == upper.key && !upper.isInclusive) { return 1 }
        return 0
    }

    /// Returns the keys in both ranges.
    func intersection(_ other: KeyRange) -> KeyRange {
        KeyRange(
            lower: Self.stricter(lower, other.lower) { $0 > $1 },
            upper: Self.stricter(upper, other.upper) { $0 < $1 }
        )
    }

    private static func stricter(
        _ a: Bound?,
        _ b: Bound?,
        _ isStricter: (QueryKey, QueryKey) -> Bool
    ) -> Bound? {
        guard let a, let b else { return a ?? b }
        if a.key == b.key { return a.isInclusive ? b : a }
        return isStricter(a.key, b.key) ? a : b
    }

    /// Returns the texts that begin with `prefix`, which must not be longer than a key.
    package static func beginning(with prefix: String) -> KeyRange {
        guard !prefix.isEmpty else { return .present }
        return KeyRange(lower: .including(.text(prefix)), upper: successor(of: prefix).map { .excluding(.text($0)) })
    }

    /// Returns the smallest text after all texts that begin with `prefix`; `nil` if there is none.
    private static func successor(of prefix: String) -> String? {
        var scalars = Array(prefix.unicodeScalars)
        while let last = scalars.popLast() {
            // There are no characters between U+D7FF and U+E000.
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            guard let scalar = Unicode.Scalar(next) else { continue }
            return String(String.UnicodeScalarView(scalars + [scalar]))
        }
        return nil
    }
}

extension Query.Filter {
    /// The keys of the filter's index that its matches have; `nil` for negative filters, which match nearly everything.
    ///
    /// For a comparator that requires all of several keys, each of the ranges contains all matches.
    var ranges: KeyRanges? {
        switch comparator {
        case .equals, .in, .listContains, .listContainsAny: .anyOf(keys.map { .only($0) })
        case .containsAnyTokens: .anyOf(tokens.sorted().map { .only(.text($0)) })
        case .listContainsAll: .eachOf(keys.map { .only($0) })
        case .containsAllTokens: .eachOf(tokens.sorted().map { .only(.text($0)) })
        case .lessThan: bounded { KeyRange(lower: .excluding(.absent), upper: .excluding($0)) }
        case .lessThanOrEquals: bounded { KeyRange(lower: .excluding(.absent), upper: .including($0)) }
        case .greaterThan: bounded { KeyRange(lower: .excluding($0), upper: nil) }
        case .greaterThanOrEquals: bounded { KeyRange(lower: .including($0), upper: nil) }
        case .beginsWith, .listMemberBeginsWith:
            if case .string(let prefix)? = values.first { .anyOf([.beginning(with: prefix)]) } else { nil }
        case .near:
            if case .location(let center)? = values.first, let distance {
                .anyOf(Distance.cells(within: distance, of: center).map(KeyRange.init(cells:)))
            } else {
                nil
            }
        case .notEquals, .notIn, .notBeginsWith, .notListContains, .notListContainsAny, .notListContainsAll,
            .notListMemberBeginsWith:
            nil
        }
    }

    private func bounded(_ range: (QueryKey) -> KeyRange) -> KeyRanges? { keys.first.map { .anyOf([range($0)]) } }

    /// How the index alone decides whether a record matches; `nil` if the record must be read.
    var probe: KeyProbe? {
        let isNegative = comparator.opposite != nil
        // A location's key is a cell, which contains more than one place.
        if case .location? = values.first { return nil }
        switch comparator.opposite ?? comparator {
        case .equals, .in, .listContains, .listContainsAny: return KeyProbe(keys: keys, wantsAll: false, isNegative)
        case .listContainsAll: return KeyProbe(keys: keys, wantsAll: true, isNegative)
        case .containsAllTokens: return KeyProbe(keys: tokens.sorted().map { .text($0) }, wantsAll: true, isNegative)
        case .containsAnyTokens: return KeyProbe(keys: tokens.sorted().map { .text($0) }, wantsAll: false, isNegative)
        default: return nil
        }
    }
}

extension KeyRange {
    init(cells: ClosedRange<UInt64>) {
        self.init(
            lower: .including(.number(Int64(cells.lowerBound))),
            upper: .including(.number(Int64(cells.upperBound)))
        )
    }
}

/// The ranges that contain a filter's matches.
enum KeyRanges: Hashable, Sendable {
    /// Matches have a key in any of the ranges.
    case anyOf([KeyRange])
    /// Matches have a key in each range.
    case eachOf([KeyRange])
}

/// A test of whether an index has a record under some keys.
package struct KeyProbe: Hashable, Sendable {
    package var keys: [QueryKey]
    package var wantsAll: Bool
    /// The filter matches if the test fails.
    package var isNegative: Bool

    init(keys: [QueryKey], wantsAll: Bool, _ isNegative: Bool) {
        // Equal keys share one entry.
        self.keys = Array(Set(keys)).sorted()
        self.wantsAll = wantsAll
        self.isNegative = isNegative
    }
}
