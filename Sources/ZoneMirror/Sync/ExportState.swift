import Foundation
import SyncCore
import ZoneKit

/// What a store's export knows between two requests.
struct ExportState {
    /// What is tried again later, even if nothing reports that it is possible.
    enum Retry {
        /// Changes that found no space: another device may free some.
        case quota
        /// Changes that wait for something.
        case waiting
        /// Changes that the relay refused because of its schema.
        case schema
    }

    /// The objects whose changes are being sent.
    var inFlight: Set<String> = []
    /// New objects that were reported because their share is unknown.
    var objectsWithoutShare: Set<String> = []
    /// Whether the size of the outbox was reported.
    var hasWarned = false
    /// The wait requested by the relay that the file holds.
    var storedDelay: Date?
    var retries: [Retry: Task<Void, Never>] = [:]
    /// Checks of the outbox run one at a time.
    let checkLock = AsyncLock()
}
