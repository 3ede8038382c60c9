package import Records
package import RelayCore

/// The rest of a commit that ended before all its writes were run.
package struct BatchRemainder {
    /// The writes that have not been run.
    package var rest: [any StoreWrite]
    /// Bytes of records that the other writes read and wrote, by user; users with few bytes are absent.
    package var spent: [UserID?: Int]

    /// After this many bytes a commit runs no further write: some tenths of a second on a slow disk.
    package static let bytesAtOnce = 16 << 20
    /// A write of so few bytes does not count against its user.
    private static let fewBytes = 64 << 10

    package init(rest: [any StoreWrite], spent: [UserID?: Int]) {
        self.rest = rest
        self.spent = spent
    }

    /// Runs writes until they have read and written `bytesAtOnce`, and leaves in `batch` those that it has run.
    ///
    /// `run` runs one write, and returns the bytes of records that the commit has read and written up to then.
    package static func run(_ batch: inout [any StoreWrite], by run: (any StoreWrite) -> Int) -> BatchRemainder? {
        var (bytes, spent) = (0, [UserID?: Int]())
        for (index, write) in batch.enumerated() {
            let before = bytes
            bytes = run(write)
            if bytes - before > fewBytes { spent[write.user, default: 0] += bytes - before }
            guard bytes >= bytesAtOnce, index + 1 < batch.count else { continue }
            let rest = Array(batch[(index + 1)...])
            batch.removeLast(rest.count)
            return BatchRemainder(rest: rest, spent: spent)
        }
        return nil
    }
}
