import Records
import RelayCore
import Wire

/// Writes records of one zone as clients get them.
///
/// See Wire.md, "Records".
struct RecordAnswer {
    private let zoneID: ZoneID
    private var selection: FieldsJSON.Selection
    private let links: AssetLinks?
    private let shares: ShareAnswer
    /// Are fields without assets written as they are stored? Asked once, not for each record.
    private var takesAll: Bool
    /// The zone's ID as it is written, made for the first record: all records have the same.
    private var zoneText: [UInt8]?
    /// Where the stamp written last stands, without its beginning.
    ///
    /// A new record was modified when it was created, and what one request saved has one stamp, so most are the same as the one
    /// before.
    private var lastStamp: (stamp: StoredRecord.Stamp, text: Range<Int>)?

    /// For records that go to one writer.
    ///
    /// - Parameters:
    ///   - zone: Of all the records.
    ///   - text: How that is written, where it is known.
    ///   - selection: Which fields, and how.
    ///   - links: Puts addresses into assets; `nil` where there are none.
    ///   - shares: Writes what records say of sharing.
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

    /// From here on writes these fields; where they are `nil`, those of `outer`.
    mutating func select(_ keys: [String]?, else outer: FieldsJSON.Selection) {
        guard keys != nil || selection.desiredKeys != outer.desiredKeys else { return }
        selection = outer
        if let keys { selection.desiredKeys = Set(keys) }
        takesAll = selection == .all
    }

    /// A live record whole, a deleted one as its tombstone.
    mutating func write(
        _ record: StoredRecord,
        selecting own: FieldsJSON.Selection? = nil,
        to writer: inout JSONWriter
    ) throws(RelayError) {
        guard !record.isDeleted else {
            // Where it went is its owner's business.
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
        writer.open(UInt8(ascii: "{"))
        writer.fragment(Text.recordName)
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

    /// Types of which records must be whole to be written, where others need not; `nil`: all must.
    var wholeTypes: Set<String>? { selection == .all ? links?.types ?? [] : nil }

    /// Writes those that need not be whole, from the first of a page to its last.
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

    /// A record's text between its values.
    enum Text {
        static let recordName: StaticString = #""recordName":"#
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
    /// `goal` is the zone that the record was moved to, for its owner; `isOutOfSight` tells a participant that it was moved, and
    /// not deleted. Both are ours.
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

    /// What became of one operation of a write; `requestID` goes with what failed.
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
                // Whole, since a merge needs all of it, but with numbers as the client reads them.
                let numbersAsStrings = selection.numbersAsStrings
                try write(server, selecting: .init(numbersAsStrings: numbersAsStrings), to: &writer)
            }
            writer.close(UInt8(ascii: "}"))
        }
    }

    /// The rest of a stamp, whose beginning stands.
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
