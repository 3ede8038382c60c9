package import Records

/// A live record as it lies in the store's row, lent for the length of one visit: its name and fields are not copied.
///
/// A page of a feed is hundreds of these, and to make a `StoredRecord` of each costs more than to find it. Only records of
/// the usual kind come like this: no tombstone, no share nor the root of one.
package struct RecordRow {
    /// UTF-8; gone when the visit ends, like `fields`.
    package var name: UnsafeBufferPointer<UInt8>
    package var fields: UnsafeBufferPointer<UInt8>
    package var type: String
    package var change: UInt64
    package var created: Timestamp
    package var modified: Timestamp
    /// The same object as the neighbour's where they are the same, so that nobody need compare names.
    package var authors: Authors
    package var parent: UnsafeBufferPointer<UInt8>?

    /// Who created a record and who modified it last, and on which devices.
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

/// A record on a visit.
package enum VisitedRecord {
    case whole(StoredRecord)
    case lent(RecordRow)

    var type: String {
        switch self {
        case .whole(let record): record.type
        case .lent(let row): row.type
        }
    }

    /// The number of its latest change.
    package var change: UInt64 {
        switch self {
        case .whole(let record): record.change
        case .lent(let row): row.change
        }
    }

    /// About what it costs to look at it.
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
