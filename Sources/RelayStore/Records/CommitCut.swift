import Records
import RelayCore

/// What remains of a commit that ended before all its writes were done.
struct CommitCut {
    /// Those that nothing has been done of.
    var rest: [any StoreWrite]
    /// Bytes of records that the others have read and written, by whose they were; those with few have none.
    var spent: [UserID?: Int]

    /// Bytes beyond which a commit takes no other write: some tenths of a second of a slow disk.
    static let bytesAtOnce = 16 << 20
    /// Nobody waits for so few.
    private static let fewBytes = 64 << 10

    /// Runs writes until others have waited long enough for them, and leaves in `batch` those that it has run.
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
