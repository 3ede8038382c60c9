/// The finished output of a `JSONWriter`, in the writer's memory.
///
/// A page of a feed has 100 KB and more, so it is sent from this memory without a copy.
package final class JSONText: Sendable {
    // Written before initialization, read-only afterwards.
    nonisolated(unsafe) private let start: UnsafeMutablePointer<UInt8>
    package let count: Int

    /// Takes ownership of memory that a writer has allocated.
    init(start: UnsafeMutablePointer<UInt8>, count: Int) {
        self.start = start
        self.count = count
    }

    deinit { start.deallocate() }

    /// A copy of the bytes.
    package var bytes: [UInt8] { withBytes { Array($0) } }

    /// Passes the bytes to `body`; they are valid only during the call.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(start: start, count: count))
    }
}
