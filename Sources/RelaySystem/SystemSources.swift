import Crypto
import Foundation
import Records
package import RelayCore

extension TimeSource {
    /// The system's clocks.
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
    /// A cryptographically secure generator, that of the cryptography library, which does not ask the system each time.
    package static let system = RandomSource { count in
        SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { Array($0) }
    }
}
