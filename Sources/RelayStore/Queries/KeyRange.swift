import Records
import RelayCore

/// Neighbouring keys of an index.
struct KeyRange: Hashable, Sendable {
    struct Bound: Hashable, Sendable {
        var key: QueryKey
        var isInclusive: Bool

        static func including(_ key: QueryKey) -> Bound { Bound(key: key, isInclusive: true) }
        static func excluding(_ key: QueryKey) -> Bound { Bound(key: key, isInclusive: false) }
    }

    /// `nil`: from the first entry on, which is that of records without a value.
    var lower: Bound?
    /// `nil`: to the last entry.
    var upper: Bound?

    static let everything = KeyRange(lower: nil, upper: nil)
    /// Records that have a value.
    static let present = KeyRange(lower: .excluding(.absent), upper: nil)

    static func only(_ key: QueryKey) -> KeyRange { KeyRange(lower: .including(key), upper: .including(key)) }

    /// The one key that it holds, if it is one.
    var point: QueryKey? {
        guard let lower, lower == upper, lower.isInclusive else { return nil }
        return lower.key
    }

    var isEmpty: Bool {
        guard let lower, let upper else { return false }
        if lower.key == upper.key { return !(lower.isInclusive && upper.isInclusive) }
        return upper.key < lower.key
    }

    /// Where a key is: -1 before the range, 0 in it, 1 after it.
    func side(of key: QueryKey) -> Int {
        if let lower, key < lower.key || (key == lower.key && !lower.isInclusive) { return -1 }
        if let upper, key > upper.key || (key == upper.key && !upper.isInclusive) { return 1 }
        return 0
    }

    /// The keys in both.
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

    /// Texts that begin with `prefix`, which is no longer than a key.
    static func beginning(with prefix: String) -> KeyRange {
        guard !prefix.isEmpty else { return .present }
        return KeyRange(lower: .including(.text(prefix)), upper: successor(of: prefix).map { .excluding(.text($0)) })
    }

    /// The least text that is after all that begin with `prefix`; `nil` if there is none.
    private static func successor(of prefix: String) -> String? {
        var scalars = Array(prefix.unicodeScalars)
        while let last = scalars.popLast() {
            // Between U+D7FF and U+E000 there are no characters.
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            guard let scalar = Unicode.Scalar(next) else { continue }
            return String(String.UnicodeScalarView(scalars + [scalar]))
        }
        return nil
    }
}

extension Query.Filter {
    /// The keys of its index that its matches are under; `nil` for the negative ones, whose matches are nearly everywhere.
    ///
    /// Of comparators that ask for all of several keys, the range of each: any one of them holds all matches.
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

    /// How its index alone tells whether one record matches; `nil` where the record has to be looked at.
    var probe: KeyProbe? {
        let isNegative = comparator.opposite != nil
        // A location's key is its cell: more than one place.
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

/// Where a filter's matches are in its index.
enum KeyRanges: Hashable, Sendable {
    /// Under the keys of any of these.
    case anyOf([KeyRange])
    /// Under a key of each.
    case eachOf([KeyRange])
}

/// Asks an index whether it has a record under some keys.
struct KeyProbe: Hashable, Sendable {
    var keys: [QueryKey]
    var wantsAll: Bool
    /// Matches where the answer is no.
    var isNegative: Bool

    init(keys: [QueryKey], wantsAll: Bool, _ isNegative: Bool) {
        // Like keys share one entry.
        self.keys = Array(Set(keys)).sorted()
        self.wantsAll = wantsAll
        self.isNegative = isNegative
    }
}
