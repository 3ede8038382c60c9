package import Records

/// A live record read in place from the store's row, valid only during one visit.
///
/// The record's name and fields are not copied: a page of a change feed holds hundreds of records, and building a
/// `StoredRecord` costs more than finding the row. Only plain records are visited this way: no tombstones, no shares
/// and no share roots.
package struct RecordRow {
    /// UTF-8; invalid after the visit ends, like `fields`.
    package var name: UnsafeBufferPointer<UInt8>
    package var fields: UnsafeBufferPointer<UInt8>
    package var type: String
    package var change: UInt64
    package var created: Timestamp
    package var modified: Timestamp
    /// The same object as in the previous row if the values are equal, so that callers can compare by identity.
    package var authors: Authors
    package var parent: UnsafeBufferPointer<UInt8>?

    /// The creator and last modifier of a record, with their devices.
    package final class Authors: Sendable {
        package let creator: UserID
        package let creatingDevice: DeviceMark
        package let modifier: UserID
        package let modifyingDevice: DeviceMark

        package init(
            creator: UserID,
            creatingDevice: DeviceMark,
            modifier: UserID,
            modifyingDevice: DeviceMark
        ) {
            self.creator = creator
            self.creatingDevice = creatingDevice
            self.modifier = modifier
            self.modifyingDevice = modifyingDevice
        }
    }

    package init(
        name: UnsafeBufferPointer<UInt8>,
        fields: UnsafeBufferPointer<UInt8>,
        type: String,
        change: UInt64,
        created: Timestamp,
        modified: Timestamp,
        authors: Authors,
        parent: UnsafeBufferPointer<UInt8>?
    ) {
        self.name = name
        self.fields = fields
        self.type = type
        self.change = change
        self.created = created
        self.modified = modified
        self.authors = authors
        self.parent = parent
    }
}

/// A record passed to the visitor of `StoreReader.visitRecords`.
package enum VisitedRecord {
    case whole(StoredRecord)
    case lent(RecordRow)

    var type: String {
        switch self {
        case .whole(let record): record.type
        case .lent(let row): row.type
        }
    }

    /// The number of the record's latest change.
    package var change: UInt64 {
        switch self {
        case .whole(let record): record.change
        case .lent(let row): row.change
        }
    }

    /// Approximate cost of reading the record, in bytes.
    var bytes: Int {
        switch self {
        case .whole(let record): record.fields.count + 512
        case .lent(let row): row.fields.count + 512
        }
    }

    var isDeleted: Bool {
        if case .whole(let record) = self { record.isDeleted } else { false }
    }
}
