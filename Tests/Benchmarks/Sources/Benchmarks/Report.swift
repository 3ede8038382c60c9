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
