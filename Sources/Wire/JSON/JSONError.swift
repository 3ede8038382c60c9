/// What is wrong with a JSON text, and where.
///
/// Holds no values: reasons go to peers and logs.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        /// Not JSON; the text says what was met.
        case syntax(String)
        /// Over one of `JSONLimits`.
        case limit(String)
        /// A member is absent or null.
        case missing
        /// Another type, or out of its range.
        case expected(String)
    }

    package var problem: Problem
    /// The byte the problem starts at, counted from 0.
    package var offset: Int
    /// The value's place, such as `operations[0].record.recordName`; empty for the text as a whole.
    package var path: String

    package init(_ problem: Problem, offset: Int, path: String = "") {
        self.problem = problem
        self.offset = offset
        self.path = path
    }

    package var description: String {
        switch problem {
        case .syntax(let what): "The body is not valid JSON: \(what) at byte \(offset)."
        case .limit(let what): "The JSON body has \(what)."
        case .missing: "'\(path)' is required."
        case .expected(let what): path.isEmpty ? "The body must be \(what)." : "'\(path)' must be \(what)."
        }
    }
}

/// How much of each a JSON text may have.
///
/// See Reliability.md, "Limits".
package struct JSONLimits: Hashable, Sendable {
    /// Objects and arrays inside each other.
    package var depth = 32
    /// Object members and array elements, in all.
    package var members = 100_000
    /// Characters of one number.
    package var numberLength = 64

    package init() {}

    /// For what a relay of our own sends us: pages are large, nesting is not.
    package static let response: JSONLimits = {
        var limits = JSONLimits()
        limits.members = 20_000_000
        return limits
    }()
}
