import Foundation
import Records
import SyncCore

/// What a store's import knows between two pages.
struct ImportState {
    var feed = FeedState()
    /// Ended zones whose objects may appear elsewhere, with the reason if they belong to another user.
    var endings: [ZoneID: ShareChange.Loss] = [:]
    /// Whether some records have left one zone and were not seen in another yet.
    var awaitsRecords = false
    /// Zones being prefetched, with the token of the next page to take.
    var prefetchers: [ZoneID: (token: SyncToken, prefetcher: PagePrefetcher)] = [:]
    /// When the database was asked for its zones, until all zones it returned have been read.
    var unfinishedSince: Date?

    /// Notes that records are expected in a zone, whose own feed may have nothing else to report.
    mutating func expectRecords(in zone: ZoneID) {
        awaitsRecords = true
        feed.changed(zone)
    }

    mutating func stopPrefetching() {
        prefetchers.values.forEach { $0.prefetcher.stop() }
        prefetchers = [:]
    }
}
