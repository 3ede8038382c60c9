import Records
import RelayCore
import Wire

/// Writes the records of one page directly from rows of the store, with the same result as `RecordAnswer`.
///
/// Consecutive rows have much in common: all records of one request have the same stamp, and most records of a zone
/// have few types and authors. Text that equals that of the previous row is copied.
struct RowAnswer {
    private typealias Text = RecordAnswer.Text

    /// The text with which every live record ends.
    private let end: [UInt8]
    private var type: String?
    /// The encoded member `recordType`.
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

    mutating func write(_ row: RecordRow, to writer: inout JSONWriter) {
        writer.open(UInt8(ascii: "{"))
        writer.fragment(Text.recordName)
        writer.string(row.name)
        write(type: row.type, to: &writer)
        writer.fragment(Text.fields)
        writer.raw(row.fields)
        writer.fragment(Text.changeTag)
        writer.digits(row.change, radix: .thirtySix)
        writeStamps(of: row, to: &writer)
        if let parent = row.parent {
            writer.key("parent")
            writer.object {
                $0.key("recordName")
                $0.string(parent)
            }
        }
        writer.raw(end)
    }

    private mutating func write(type name: String, to writer: inout JSONWriter) {
        if type == name { return writer.raw(typeText) }
        let start = writer.length
        writer.fragment(Text.recordType)
        writer.string(name)
        Self.keep(from: start, of: writer, in: &typeText)
        type = name
    }

    private mutating func writeStamps(of row: RecordRow, to writer: inout JSONWriter) {
        if authors !== row.authors {
            creator = Self.author(row.authors.creator, row.authors.creatingDevice)
            modifier = Self.author(row.authors.modifier, row.authors.modifyingDevice)
            authors = row.authors
        } else if created == row.created, modified == row.modified {
            return writer.raw(stamps)
        }
        let start = writer.length
        writer.fragment(Text.created)
        writer.int(row.created.milliseconds)
        writer.raw(creator)
        writer.fragment(Text.modified)
        writer.int(row.modified.milliseconds)
        writer.raw(modifier)
        Self.keep(from: start, of: writer, in: &stamps)
        (created, modified) = (row.created, row.modified)
    }

    /// Stores the text written since `start` without its leading comma, because `raw` writes a comma.
    private static func keep(from start: Int, of writer: borrowing JSONWriter, in text: inout [UInt8]) {
        writer.copy(from: start + 1, into: &text)
    }

    private static func author(_ user: UserID, _ device: DeviceMark) -> [UInt8] {
        var writer = JSONWriter()
        writer.key("userRecordName")
        writer.string(user.recordName)
        writer.fragment(Text.device)
        writer.digits(device.bits, radix: .sixteen)
        writer.close(UInt8(ascii: "}"))
        return writer.bytes
    }
}
