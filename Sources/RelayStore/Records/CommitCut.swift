import Records
import RelayCore

/// The rest of a commit that ended before all its writes were run.
struct CommitCut {
    /// The writes that have not been run.
    var rest: [any StoreWrite]
    /// Bytes of records that the other writes read and wrote, by user; users with few bytes are absent.
    var spent: [UserID?: Int]

    /// After this many bytes a commit runs no further write: some tenths of a second on a slow disk.
    static let bytesAtOnce = 16 << 20
    /// A write of so few bytes does not count against its user.
    private static let fewBytes = 64 << 10

    /// Runs writes until they have read and written `bytesAtOnce`, and leaves in `batch` those that it has run.
    static func run(_ batch: inout [any StoreWrite], in writer: SQLiteWriter) -> CommitCut? {
        var spent: [UserID?: Int] = [:]
        for (index, write) in batch.enumerated() {
            let before = writer.recordBytes
            write.run(in: writer)
            let bytes = writer.recordBytes - before
            if bytes > fewBytes { spent[write.user, default: 0] += bytes }
            guard writer.recordBytes >= bytesAtOnce, index + 1 < batch.count else { continue }
            let rest = Array(batch[(index + 1)...])
            batch.removeLast(rest.count)
            return CommitCut(rest: rest, spent: spent)
        }
        return nil
    }
}
