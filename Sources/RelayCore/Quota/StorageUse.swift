/// Bytes that somebody's data takes, as quotas count them.
///
/// A record counts with its name, its fields and `recordOverhead`; a tombstone with nothing, so that whoever deletes gets
/// all of it back. An asset counts once for each zone that uses it, however many of the zone's records do.
package struct StorageUse: Hashable, Sendable {
    package var records: Int64
    package var assets: Int64

    package init(records: Int64 = 0, assets: Int64 = 0) {
        self.records = records
        self.assets = assets
    }

    /// What a live record takes of its own; a tombstone or none takes nothing.
    package init(of record: StoredRecord?) {
        assets = 0
        records = 0
        guard let record, !record.isDeleted else { return }
        records = Self.recordOverhead + Int64(record.name.utf8.count + record.fields.count)
    }

    /// Bytes of a record's system values and its places in indexes, about.
    package static let recordOverhead: Int64 = 100

    package var total: Int64 { records + assets }

    package static func + (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records + b.records, assets: a.assets + b.assets)
    }

    package static func - (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records - b.records, assets: a.assets - b.assets)
    }
}
