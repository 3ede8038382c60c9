import Records
import SyncCore

/// A small random number generator whose sequence is determined by its seed.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// Always returns the top of the range, so that a jittered wait is its ceiling (within rounding).
struct HighestRandom: RandomNumberGenerator {
    func next() -> UInt64 { .max }
}

/// Always returns the bottom of the range, so that a jittered wait is zero.
struct LowestRandom: RandomNumberGenerator {
    func next() -> UInt64 { 0 }
}

let notes = ZoneID("Notes")
let work = ZoneID("Work")

func at(_ seconds: Double) -> Instant { Instant(sinceStart: .milliseconds(Int64(seconds * 1000))) }

func record(_ name: String, in zone: ZoneID = notes) -> RecordID { RecordID(name, in: zone) }
