package import RelayStore
import Synchronization

/// The folder and the calls that a test's relay writes with; requested at each start.
package struct RelayDisk: Sendable {
    package var place: @Sendable () -> (folder: String, calls: DiskCalls)

    package init(place: @escaping @Sendable () -> (folder: String, calls: DiskCalls)) { self.place = place }
}

/// The error of a clock.
final class ClockError: Sendable {
    private let error = Mutex(Duration.zero)

    var value: Duration {
        get { error.withLock { $0 } }
        set { error.withLock { $0 = newValue } }
    }
}
