/// The storage that a user's or container's data uses, in bytes, as quotas count it.
///
/// A record counts as its name, its fields and `recordOverhead`. A tombstone counts as nothing, so that a deletion
/// frees all of the record's bytes. An asset counts once per zone, however many of the zone's records use it.
package struct StorageUse: Hashable, Sendable {
    package var records: Int64
    package var assets: Int64

    package init(records: Int64 = 0, assets: Int64 = 0) {
        self.records = records
        self.assets = assets
    }

    /// The bytes of one record without its assets; 0 for a tombstone and for `nil`.
    package init(of record: StoredRecord?) {
        assets = 0
        records = 0
        guard let record, !record.isDeleted else { return }
        records = Self.recordOverhead + Int64(record.name.utf8.count + record.fields.count)
    }

    /// Approximate bytes of a record's system values and index entries.
    package static let recordOverhead: Int64 = 100

    package var total: Int64 { records + assets }

    package static func + (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records + b.records, assets: a.assets + b.assets)
    }

    package static func - (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records - b.records, assets: a.assets - b.assets)
    }
}
