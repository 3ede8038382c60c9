/// An error in a JSON text and its position.
///
/// Contains no values, because errors are sent to peers and logged.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        /// Invalid JSON; the text describes the problem.
        case syntax(String)
        /// Exceeds one of `JSONLimits`.
        case limit(String)
        /// A required member is absent or null.
        case missing
        /// A value of a different type, or out of range.
        case expected(String)
    }

    package var problem: Problem
    /// The byte offset of the problem, counted from 0.
    package var offset: Int
    /// The value's path, such as `operations[0].record.recordName`; empty for the text as a whole.
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

/// The limits of a JSON text.
///
/// See Reliability.md, "Limits".
package struct JSONLimits: Hashable, Sendable {
    /// Maximum nesting of objects and arrays.
    package var depth = 32
    /// Maximum number of object members and array elements in total.
    package var members = 100_000
    /// Maximum length of a number in characters.
    package var numberLength = 64

    package init() {}

    /// The limits for responses of a trusted relay, whose pages are large but not deeply nested.
    package static let response: JSONLimits = {
        var limits = JSONLimits()
        limits.members = 20_000_000
        return limits
    }()
}
