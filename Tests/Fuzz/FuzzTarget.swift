/// One reader of bytes that strangers send, and what must hold whatever they send.
package struct FuzzTarget: Sendable {
    package let name: String
    /// Good inputs to begin with; the kept corpus adds the odd ones.
    package let seeds: [[UInt8]]
    /// Words that mean something to the reader.
    package let words: [String]
    /// What one process's runs share, such as a relay; made once.
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

    /// One that needs nothing but the input.
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

/// What came of one input.
package struct Finding: Hashable, Sendable {
    /// How the reader took it, in few words: an input with a new one is kept to be changed further.
    package var manner: String
    /// What must not be; `nil` where all is well.
    package var objection: String?

    package init(_ manner: String, objection: String? = nil) {
        self.manner = manner
        self.objection = objection
    }

    /// One that is told apart by a sentence about it, less the numbers and whatever stands in quotes.
    init(_ manner: String, gist sentence: String) {
        let plain = sentence.split(whereSeparator: { "'\"".contains($0) }).enumerated()
            .filter { $0.offset.isMultiple(of: 2) }.map { $0.element.filter { !$0.isNumber } }.joined()
        self.init(manner + " " + plain.prefix(50))
    }
}
