import Foundation
import RelayCore

/// The result of one check of `zonecast doctor`.
struct Finding: Encodable, Hashable, Sendable {
    enum Grade: String, Encodable, Sendable {
        /// The check passed.
        case good
        /// It works; something could be better.
        case advice
        /// Something does not work.
        case problem
    }

    var check: String
    var grade: Grade
    /// The result, in one sentence.
    var found: String
    /// The suggested command or step; `nil` if there is nothing to do.
    var next: String?

    init(_ check: String, _ grade: Grade, _ found: String, next: String? = nil) {
        self.check = check
        self.grade = grade
        self.found = found
        self.next = next
    }
}

extension Finding {
    init(_ finding: StoreFinding) {
        let grade: Grade =
            switch finding.grade {
            case .good: .good
            case .advice: .advice
            case .problem: .problem
            }
        self.init(finding.check, grade, finding.found, next: finding.next)
    }
}

/// The results of all checks.
struct Diagnosis: Encodable, Sendable {
    private(set) var findings: [Finding] = []

    mutating func add(_ finding: Finding) { findings.append(finding) }

    func count(_ grade: Finding.Grade) -> Int { findings.count { $0.grade == grade } }

    /// `8 ok, 1 advice, 0 problems`.
    var summary: String {
        let problems = count(.problem)
        return "\(count(.good)) ok, \(count(.advice)) advice, \(problems) problem\(problems == 1 ? "" : "s")"
    }

    private enum CodingKeys: CodingKey { case checks, good, advice, problems }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(findings, forKey: .checks)
        try container.encode(count(.good), forKey: .good)
        try container.encode(count(.advice), forKey: .advice)
        try container.encode(count(.problem), forKey: .problems)
    }
}

extension Finding {
    /// Returns a line with a mark, the check and the result, and a second line with the suggested step.
    func lines(marks: Bool) -> [String] {
        let mark =
            switch grade {
            case .good: marks ? "✔" : "ok     "
            case .advice: marks ? "!" : "advice "
            case .problem: marks ? "✘" : "problem"
            }
        let name = check.padding(toLength: max(16, check.count), withPad: " ", startingAt: 0)
        let indent = String(repeating: " ", count: mark.count + 1 + name.count + 2)
        return ["\(mark) \(name)  \(found)"] + (next.map { ["\(indent)→ \($0)"] } ?? [])
    }
}
