import Foundation
import Records
package import RelayCore

extension TimeSource {
    /// The machine's own clocks.
    package static let system: TimeSource = {
        let start = ContinuousClock.now
        return TimeSource(
            now: {
                var time = timespec()
                clock_gettime(CLOCK_REALTIME, &time)
                return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
            },
            uptime: { ContinuousClock.now - start }
        )
    }()
}

extension RandomSource {
    /// The machine's own generator, fit for secrets.
    package static let system = RandomSource { count in
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 7)
        while bytes.count < count { withUnsafeBytes(of: generator.next()) { bytes.append(contentsOf: $0) } }
        return Array(bytes.prefix(count))
    }
}
