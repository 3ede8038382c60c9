/// One parser of untrusted bytes, with the invariants that must hold for every input.
package struct FuzzTarget: Sendable {
    package let name: String
    /// Valid inputs to start from.
    ///
    /// The saved corpus adds unusual ones.
    package let seeds: [[UInt8]]
    /// Words that have a meaning in the input format.
    package let words: [String]
    /// Creates the state that all inputs of a run share, such as a relay.
    ///
    /// Called once.
    package let prepare: @Sendable () async throws -> Probe

    /// Reads one input.
    package typealias Probe = @Sendable (_ input: [UInt8]) async -> Finding

    package init(
        _ name: String,
        seeds: [String],
        bytes: [[UInt8]] = [],
        words: [String] = [],
        prepare: @escaping @Sendable () async throws -> Probe
    ) {
        self.name = name
        self.seeds = seeds.map { Array($0.utf8) } + bytes
        self.words = words
        self.prepare = prepare
    }

    /// Creates a target that needs no shared state.
    init(
        _ name: String,
        seeds: [String],
        bytes: [[UInt8]] = [],
        words: [String] = [],
        probe: @escaping @Sendable ([UInt8]) -> Finding
    ) {
        self.init(name, seeds: seeds, bytes: bytes, words: words) { { input in probe(input) } }
    }

    package static let all: [FuzzTarget] = texts + queries + tokens + streams + requests + addresses + consoles
}

/// The result of one input.
package struct Finding: Hashable, Sendable {
    /// A short summary of what the parser did.
    ///
    /// An input with a new outcome joins the pool for further mutation.
    package var outcome: String
    /// The violated invariant; `nil` if there is none.
    package var objection: String?

    package init(_ outcome: String, objection: String? = nil) {
        self.outcome = outcome
        self.objection = objection
    }

    /// Adds an error text to the outcome, without numbers and quoted parts.
    init(_ outcome: String, gist sentence: String) {
        let plain = sentence.split(whereSeparator: { "'\"".contains($0) }).enumerated()
            .filter { $0.offset.isMultiple(of: 2) }.map { $0.element.filter { !$0.isNumber } }.joined()
        self.init(outcome + " " + plain.prefix(50))
    }
}
