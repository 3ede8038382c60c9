import Foundation

/// Prints findings as they are measured, or as JSON at the end.
struct Report {
    private let asJSON: Bool
    private(set) var findings: [Finding] = []
    private var skipped: [String: String] = [:]

    init(asJSON: Bool) { self.asJSON = asJSON }

    /// Prints a progress message to standard error.
    func log(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }

    mutating func add(_ finding: Finding) {
        findings.append(finding)
        if !asJSON { write(Self.line(finding)) }
    }

    mutating func skip(_ row: String, because reason: String) {
        skipped[row] = reason
        log("\(row): not measured. \(reason)")
    }

    func finish() throws {
        let missed = findings.filter { $0.isMet == false }
        if asJSON {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            write(String(decoding: try encoder.encode(Whole(findings: findings, skipped: skipped)), as: UTF8.self))
        } else {
            write(
                "\(findings.count) figures, \(missed.count) missed their target, \(skipped.count) rows skipped"
            )
        }
    }

    /// Unlike `print`, does not buffer lines when the output is a file.
    private func write(_ text: String) {
        FileHandle.standardOutput.write(Data((text + "\n").utf8))
    }

    private struct Whole: Encodable {
        var findings: [Finding]
        var skipped: [String: String]
    }

    private static func line(_ finding: Finding) -> String {
        var text = "\(finding.row): \(finding.what)\n    relay \(number(finding.relay)) \(finding.unit)"
        if let floor = finding.floor {
            text += "   \(floor.name) \(number(floor.value)) \(finding.unit)   ratio \(number(floor.ratio))"
        }
        switch finding.target {
        case .ratioAtLeast(let bound): text += "   target: ratio at least \(number(bound))"
        case .ratioAtMost(let bound): text += "   target: ratio at most \(number(bound))"
        case .atLeast(let bound): text += "   target: at least \(number(bound))"
        case .atMost(let bound): text += "   target: at most \(number(bound))"
        case nil: break
        }
        if let isMet = finding.isMet { text += isMet ? "   ok" : "   MISSED" }
        if let note = finding.note { text += "\n    \(note)" }
        return text
    }

    /// Three significant digits below a thousand, whole numbers with separators above.
    private static func number(_ value: Double) -> String {
        if abs(value) < 1000 { return String(format: abs(value) < 10 ? "%.2f" : "%.1f", value) }
        var digits = String(Int(value.rounded()))
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits = String(digits.dropLast(3))
        }
        return ([digits] + groups).joined(separator: ",")
    }
}

/// A measured figure with its floor and its target.
struct Finding: Encodable {
    /// The row of the figure, as `--only` names it.
    var row: String
    var what: String
    var unit: String
    /// The median of the rounds.
    var relay: Double
    var floor: Floor?
    var target: Target?
    var note: String?

    struct Floor: Encodable {
        var name: String
        /// The median of the same rounds.
        var value: Double
        /// Relay to floor: the median of the ratios of each round, because the disk's speed varies between rounds.
        var ratio: Double
    }

    /// What the relay must reach.
    enum Target: Encodable {
        case ratioAtLeast(Double)
        case ratioAtMost(Double)
        case atLeast(Double)
        case atMost(Double)
    }

    /// `nil` without a target, or if the target's floor is missing.
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

    /// Makes a figure measured in rounds beside its floor.
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

/// A figure measured in turns on the relay and on its floor.
struct Paired {
    var relay: [Double] = []
    var floor: [Double] = []

    /// The median of the ratios of each round.
    var ratio: Double { zip(relay, floor).map { $0 / max($1, .leastNonzeroMagnitude) }.median }

    /// Measures both sides in turns, alternating the order, so that both meet the same disk.
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

    /// The value that this share of all values does not exceed, 0 without values.
    func quantile(_ share: Double) -> Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        return sorted[Swift.min(count - 1, Int((Double(count) * share).rounded(.down)))]
    }
}
