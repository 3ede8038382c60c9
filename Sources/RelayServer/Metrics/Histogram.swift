/// Counts of values up to each of some bounds, as Prometheus keeps them.
struct Histogram: Sendable {
    /// Upper bounds, growing; a last one for all larger values is understood.
    let bounds: [Double]
    private(set) var counts: [UInt64]
    private(set) var sum = 0.0

    /// For times in seconds: from a tenth of a millisecond to ten seconds.
    static let times = Histogram(bounds: [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ])
    /// For how many things are done at once.
    static let batches = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])

    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    mutating func observe(_ value: Double) {
        sum += value
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
    }

    var count: UInt64 { counts.reduce(0, +) }
}
