/// One measured figure beside its floor and what the project asks of it.
struct Finding: Encodable {
    /// The row it belongs to, as `--only` names it.
    var row: String
    var what: String
    var unit: String
    /// Median over the rounds.
    var relay: Double
    var floor: Floor?
    var target: Target?
    var note: String?

    struct Floor: Encodable {
        var name: String
        /// Median over the same rounds.
        var value: Double
        /// Relay to floor: the median of each round's own ratio, since the disk's speed swings from round to round.
        var ratio: Double
    }

    /// What the relay must reach.
    enum Target: Encodable {
        case ratioAtLeast(Double)
        case ratioAtMost(Double)
        case atLeast(Double)
        case atMost(Double)
    }

    /// `nil` where nothing was asked, or where the floor it speaks of is missing.
    var isMet: Bool? {
        switch target {
        case .ratioAtLeast(let bound): floor.map { $0.ratio >= bound }
        case .ratioAtMost(let bound): floor.map { $0.ratio <= bound }
        case .atLeast(let bound): relay >= bound
        case .atMost(let bound): relay <= bound
        case nil: nil
        }
    }

    init(
        _ row: String,
        _ what: String,
        unit: String,
        relay: Double,
        floor: Floor? = nil,
        target: Target? = nil,
        note: String? = nil
    ) {
        self.row = row
        self.what = what
        self.unit = unit
        self.relay = relay
        self.floor = floor
        self.target = target
        self.note = note
    }

    /// A figure measured in rounds beside its floor.
    init(
        _ row: String,
        _ what: String,
        unit: String,
        _ paired: Paired,
        against floorName: String,
        target: Target? = nil,
        note: String? = nil
    ) {
        let floor =
            paired.floor.isEmpty
            ? nil
            : Floor(
                name: floorName,
                value: paired.floor.median,
                ratio: paired.ratio
            )
        self.init(row, what, unit: unit, relay: paired.relay.median, floor: floor, target: target, note: note)
    }
}

/// The same thing measured on the relay and on its floor, turn by turn.
struct Paired {
    var relay: [Double] = []
    var floor: [Double] = []

    /// The median of each round's own ratio.
    var ratio: Double { zip(relay, floor).map { $0 / max($1, .leastNonzeroMagnitude) }.median }

    /// Measures in turns, changing who goes first, so that neither meets a better disk than the other.
    static func measure(rounds: Int, relay: () throws -> Double, floor: () throws -> Double) throws -> Paired {
        var paired = Paired()
        for round in 0..<rounds {
            if round.isMultiple(of: 2) { paired.relay.append(try relay()) }
            paired.floor.append(try floor())
            if !round.isMultiple(of: 2) { paired.relay.append(try relay()) }
        }
        return paired
    }
}

extension [Double] {
    var median: Double { quantile(0.5) }

    /// The value that the given share of all values does not exceed; 0 without values.
    func quantile(_ share: Double) -> Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        return sorted[Swift.min(count - 1, Int((Double(count) * share).rounded(.down)))]
    }
}
