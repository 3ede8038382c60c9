package import RelayStore
import Synchronization

/// What a relay in a test writes to: which folder, and by which calls; asked at each start.
package struct RelayDisk: Sendable {
    package var place: @Sendable () -> (folder: String, calls: DiskCalls)

    package init(place: @escaping @Sendable () -> (folder: String, calls: DiskCalls)) { self.place = place }
}

/// By how much a clock is wrong.
final class ClockError: Sendable {
    private let error = Mutex(Duration.zero)

    var value: Duration {
        get { error.withLock { $0 } }
        set { error.withLock { $0 = newValue } }
    }
}
