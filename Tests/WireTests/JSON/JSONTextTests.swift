import Testing
import Wire

/// Finished JSON is passed on without copying its memory.
@Suite struct JSONTextTests {
    @Test func theTextHasTheBytesThatWereWritten() {
        var writer = JSONWriter(reserving: 64)
        writer.array(0..<1_000) { $0.int($1) }
        let copy = writer.bytes
        let text = writer.finish()
        #expect(text.count == copy.count)
        #expect(text.bytes == copy)
        #expect(text.withBytes { Array($0) } == copy)
    }

    @Test func anUnusedWriterYieldsAnEmptyText() {
        let text = JSONWriter().finish()
        #expect(text.bytes.isEmpty && text.withBytes { $0.isEmpty })
    }
}
