import Records
import RelayCore
import Wire

/// Writes record dictionaries for the records of one zone.
///
/// See Wire.md, "Records".
struct RecordAnswer {
    private let zoneID: ZoneID
    private var selection: FieldsJSON.Selection
    private let links: AssetLinks?
    private let shares: ShareAnswer
    /// Whether fields without assets are written as they are stored; computed once instead of for each record.
    private var takesAll: Bool
    /// The encoded zone ID, created for the first record and reused for all others.
    private var zoneText: [UInt8]?
    /// The stamp written last and the range of its text in the writer, without its beginning.
    ///
    /// Consecutive stamps are often equal: a new record has the same stamp for creation and modification, and all
    /// records of one request have the same stamp. Equal stamps are copied.
    private var lastStamp: (stamp: StoredRecord.Stamp, text: Range<Int>)?

    /// Creates an encoder for records that are written to the same writer.
    ///
    /// - Parameters:
    ///   - zone: The zone of all records.
    ///   - text: The encoded zone ID, if known.
    ///   - selection: The fields to write and how to encode them.
    ///   - links: Adds download URLs to assets; `nil` if there are none.
    ///   - shares: Writes the sharing members.
    init(
        zone: ZoneID,
        text: [UInt8]? = nil,
        selection: FieldsJSON.Selection = .all,
        links: AssetLinks?,
        shares: ShareAnswer
    ) {
        zoneID = zone
        zoneText = text
        self.shares = shares
        self.links = links
        self.selection = selection
        takesAll = selection == .all
    }

    /// Selects these fields for the following records; if `keys` is `nil`, the fields of `outer`.
    mutating func select(_ keys: [String]?, else outer: FieldsJSON.Selection) {
        guard keys != nil || selection.desiredKeys != outer.desiredKeys else { return }
        selection = outer
        if let keys { selection.desiredKeys = Set(keys) }
        takesAll = selection == .all
    }

    /// Writes a live record completely, or a deleted one as a tombstone.
    mutating func write(
        _ record: StoredRecord,
        selecting own: FieldsJSON.Selection? = nil,
        to writer: inout JSONWriter
    ) throws(RelayError) {
        guard !record.isDeleted else {
            // Only the owner of the zone may know where the record was moved.
            let isOwner = shares.viewer == zoneID.owner
            return writeTombstone(
                record.name,
                type: record.type,
                movedTo: isOwner ? record.movedTo : nil,
                isOutOfSight: !isOwner && record.isOutOfSight,
                to: &writer
            )
        }
        let links = links.flatMap { $0.types.contains(record.type) ? $0 : nil }
        let isStored = own == nil && takesAll && links == nil
        let fields = isStored ? record.fields : try fields(of: record, own ?? selection, links)
        writer.begin(Text.start)
        writer.string(record.name)
        writer.fragment(Text.recordType)
        writer.string(record.type)
        writer.fragment(Text.fields)
        writer.raw(fields)
        writer.fragment(Text.changeTag)
        writer.digits(record.change, radix: .thirtySix)
        writer.fragment(Text.created)
        write(record.created, to: &writer)
        writer.fragment(Text.modified)
        write(record.modified, to: &writer)
        if let parent = record.parent, !shares.hidesParent(of: record) {
            writer.key("parent")
            writer.object { $0.member("recordName", parent) }
        }
        if record.share != nil { shares.write(record, in: zoneID, to: &writer) }
        writer.fragment(Text.end)
        writeZone(to: &writer)
        writer.close(UInt8(ascii: "}"))
    }

    private mutating func writeZone(to writer: inout JSONWriter) {
        if let zoneText { return writer.raw(zoneText) }
        var own = JSONWriter()
        ZoneIDCodec.write(zoneID, to: &own)
        writer.raw(own.bytes)
        zoneText = own.bytes
    }

    /// The record types whose records must be decoded completely to be written; `nil` if this applies to all types.
    var wholeTypes: Set<String>? { selection == .all ? links?.types ?? [] : nil }

    /// An encoder for the records of one page that can be written without being decoded completely.
    var rows: RowAnswer {
        var writer = JSONWriter()
        writer.key("deleted")
        writer.bool(false)
        writer.key("zoneID")
        ZoneIDCodec.write(zoneID, to: &writer)
        writer.close(UInt8(ascii: "}"))
        return RowAnswer(end: writer.bytes)
    }

    private func fields(
        of record: StoredRecord,
        _ selection: FieldsJSON.Selection,
        _ links: AssetLinks?
    ) throws(RelayError) -> [UInt8] {
        guard let links else { return try selection.apply(to: record.fields) }
        return try selection.apply(to: record.fields) { field, asset in
            links.address(asset, field: field, record: record, zone: zoneID)
        }
    }

    /// The constant parts of a record dictionary.
    enum Text {
        static let start: StaticString = #"{"recordName":"#
        static let recordType: StaticString = #","recordType":"#
        static let fields: StaticString = #","fields":"#
        static let changeTag: StaticString = #","pluginFields":{},"recordChangeTag":"#
        static let created: StaticString = #","created":{"timestamp":"#
        static let modified: StaticString = #","modified":{"timestamp":"#
        static let user: StaticString = #","userRecordName":"#
        static let device: StaticString = #","deviceID":"#
        static let end: StaticString = #","deleted":false,"zoneID":"#
    }

    /// Writes a tombstone.
    ///
    /// `goal` is the zone to which the record was moved, for the zone's owner. `isOutOfSight` tells a participant that the
    /// record was moved, not deleted. Both are Zonecast extensions.
    mutating func writeTombstone(
        _ name: String,
        type: String?,
        movedTo goal: String? = nil,
        isOutOfSight: Bool = false,
        to writer: inout JSONWriter
    ) {
        writer.open(UInt8(ascii: "{"))
        writer.member("recordName", name)
        if let type { writer.member("recordType", type) }
        writer.member("deleted", true)
        if let goal { writer.member("movedTo", goal) }
        if isOutOfSight { writer.member("outOfSight", true) }
        writer.key("zoneID")
        writeZone(to: &writer)
        writer.close(UInt8(ascii: "}"))
    }

    /// Writes the outcome of one operation of a write; `requestID` is added to errors.
    mutating func write(_ outcome: ModifyRecords.Outcome, requestID: RequestIdentifier, to writer: inout JSONWriter)
        throws(RelayError)
    {
        switch outcome {
        case .saved(let record): try write(record, to: &writer)
        case .deleted(let name, let type): writeTombstone(name, type: type, to: &writer)
        case .failed(let name, let error, let server):
            writer.open(UInt8(ascii: "{"))
            writer.member("recordName", name)
            writer.members(of: error)
            writer.member("uuid", requestID.text)
            if let server {
                writer.key("serverRecord")
                // A merge needs all fields, but with numbers in the encoding that the client has requested.
                let numbersAsStrings = selection.numbersAsStrings
                try write(server, selecting: .init(numbersAsStrings: numbersAsStrings), to: &writer)
            }
            writer.close(UInt8(ascii: "}"))
        }
    }

    /// Writes the rest of a stamp, whose beginning has been written.
    private mutating func write(_ stamp: StoredRecord.Stamp, to writer: inout JSONWriter) {
        if let lastStamp, lastStamp.stamp == stamp { return writer.again(lastStamp.text) }
        let start = writer.length
        writer.int(stamp.at.milliseconds)
        writer.fragment(Text.user)
        writer.string(stamp.by.recordName)
        writer.fragment(Text.device)
        writer.digits(stamp.device.bits, radix: .sixteen)
        writer.close(UInt8(ascii: "}"))
        lastStamp = (stamp, start..<writer.length)
    }
}

extension FieldsJSON.Selection {
    fileprivate func apply(
        to fields: [UInt8],
        linking link: ((String, Asset) -> String?)? = nil
    ) throws(RelayError) -> [UInt8] {
        do {
            guard let link else { return try FieldsJSON.select(self, from: fields) }
            return try FieldsJSON.select(self, from: fields, linking: link)
        } catch {
            throw RelayError(.internalError, "A stored record could not be read; the operator should check the store.")
        }
    }
}

/// Writes the records of one page directly from rows of the store, with the same result as `RecordAnswer`.
///
/// Consecutive rows have much in common: all records of one request have the same stamp, and most records of a zone
/// have few types and authors. Text that equals that of the previous row is copied.
struct RowAnswer {
    private typealias Text = RecordAnswer.Text

    /// The text with which every live record ends.
    private let end: [UInt8]
    private var type: String?
    /// The encoded member `recordType` and the key of the next member.
    private var typeText: [UInt8] = []
    private var authors: RecordRow.Authors?
    /// The ends of the stamps, after their times.
    private var creator: [UInt8] = []
    private var modifier: [UInt8] = []
    private var created = Timestamp(milliseconds: 0)
    private var modified = Timestamp(milliseconds: 0)
    /// The encoded members of both stamps.
    private var stamps: [UInt8] = []

    init(end: [UInt8]) { self.end = end }

    mutating func write(_ row: UnsafePointer<RecordRow>, to writer: inout JSONWriter) {
        writer.begin(Text.start)
        writer.string(row.pointee.name)
        if type != row.pointee.type { setType(row.pointee.type) }
        writer.fragments(typeText, row.pointee.fields, Text.changeTag, tag: row.pointee.change)
        writeStamps(of: row, to: &writer)
        if let parent = row.pointee.parent {
            writer.key("parent")
            writer.object {
                $0.key("recordName")
                $0.string(parent)
            }
        }
        writer.raw(end)
    }

    private mutating func setType(_ name: String) {
        var writer = JSONWriter()
        writer.fragment(Text.recordType)
        writer.string(name)
        writer.fragment(Text.fields)
        (type, typeText) = (name, writer.bytes)
    }

    private mutating func writeStamps(of row: UnsafePointer<RecordRow>, to writer: inout JSONWriter) {
        if authors !== row.pointee.authors {
            creator = Self.author(row.pointee.authors.creator, row.pointee.authors.creatingDevice)
            modifier = Self.author(row.pointee.authors.modifier, row.pointee.authors.modifyingDevice)
            authors = row.pointee.authors
        } else if created == row.pointee.created, modified == row.pointee.modified {
            return writer.raw(stamps)
        }
        let start = writer.length
        writer.fragment(Text.created)
        writer.int(row.pointee.created.milliseconds)
        writer.raw(creator)
        writer.fragment(Text.modified)
        writer.int(row.pointee.modified.milliseconds)
        writer.raw(modifier)
        Self.keep(from: start, of: writer, in: &stamps)
        (created, modified) = (row.pointee.created, row.pointee.modified)
    }

    /// Stores the text written since `start` without its leading comma, because `raw` writes a comma.
    private static func keep(from start: Int, of writer: borrowing JSONWriter, in text: inout [UInt8]) {
        writer.copy(from: start + 1, into: &text)
    }

    private static func author(_ user: UserID, _ device: DeviceFingerprint) -> [UInt8] {
        var writer = JSONWriter()
        writer.key("userRecordName")
        writer.string(user.recordName)
        writer.fragment(Text.device)
        writer.digits(device.bits, radix: .sixteen)
        writer.close(UInt8(ascii: "}"))
        return writer.bytes
    }
}
