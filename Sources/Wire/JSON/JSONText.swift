/// Finished JSON in the memory that a `JSONWriter` wrote it into.
///
/// A page of a feed is a hundred kilobytes and more, so whoever sends it lends these bytes and makes no copy.
package final class JSONText: Sendable {
    // Written before, and only read from here on.
    nonisolated(unsafe) private let start: UnsafeMutablePointer<UInt8>
    package let count: Int

    /// Takes over memory that a writer has allocated.
    init(start: UnsafeMutablePointer<UInt8>, count: Int) {
        self.start = start
        self.count = count
    }

    deinit { start.deallocate() }

    /// A copy.
    package var bytes: [UInt8] { withBytes { Array($0) } }

    /// Lends the bytes for the length of the call.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(start: start, count: count))
    }
}
