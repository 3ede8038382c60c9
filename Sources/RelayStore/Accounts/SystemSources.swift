import Crypto
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
    /// A generator fit for secrets: the cryptography library's own, which asks the system for a seed and not for each draw.
    package static let system = RandomSource { count in
        SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { Array($0) }
    }
}
