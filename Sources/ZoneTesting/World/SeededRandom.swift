import Synchronization

/// A random source that returns the same numbers for the same seed: SplitMix64, with a lock, since relays use threads.
package final class SeededRandom: Sendable {
    private let state: Mutex<UInt64>

    package init(seed: UInt64) { state = Mutex(seed) }

    package func number() -> UInt64 {
        state.withLock { state in
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    package func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        while bytes.count < count { withUnsafeBytes(of: number().littleEndian) { bytes.append(contentsOf: $0) } }
        return Array(bytes.prefix(count))
    }

    /// The source as a random number generator.
    package struct Generator: RandomNumberGenerator, Sendable {
        let source: SeededRandom
        package mutating func next() -> UInt64 { source.number() }
    }

    package var generator: Generator {
        get { Generator(source: self) }
        // Copies draw from the same source, so there is nothing to store.
        set {}
    }
}
