/// A histogram with fixed upper bounds, as in Prometheus.
package struct Histogram: Sendable {
    /// The upper bounds in ascending order; an implicit last bucket counts all larger values.
    let bounds: [Double]
    private(set) var counts: [UInt64]
    private(set) var sum = 0.0

    /// For durations in seconds, from 0.1 ms to 10 s.
    package static let times = Histogram(bounds: [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ])
    /// For batch sizes.
    static let batches = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])

    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    mutating func observe(_ value: Double, times: Int = 1) {
        sum += value * Double(times)
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += UInt64(times)
    }

    var count: UInt64 { counts.reduce(0, +) }

    /// Returns the difference from an earlier state of the same histogram.
    func since(_ earlier: Histogram) -> Histogram {
        var difference = self
        difference.counts = zip(counts, earlier.counts).map { $0 >= $1 ? $0 - $1 : $0 }
        difference.sum = max(0, sum - earlier.sum)
        return difference
    }

    mutating func add(_ other: Histogram) {
        counts = zip(counts, other.counts).map { $0 &+ $1 }
        sum += other.sum
    }

    /// Returns a quantile, interpolated linearly within its bucket; `nil` for an empty histogram.
    func quantile(_ share: Double) -> Double? {
        let wanted = Double(count) * share
        guard wanted > 0 else { return nil }
        var passed = 0.0
        for (index, own) in counts.enumerated() {
            let below = index == 0 ? 0 : bounds[index - 1]
            guard index < bounds.count else { return below }
            if passed + Double(own) >= wanted, own > 0 {
                return below + (bounds[index] - below) * (wanted - passed) / Double(own)
            }
            passed += Double(own)
        }
        return bounds.last
    }
}
