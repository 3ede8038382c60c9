import RelayStore
import Testing

@Suite struct FreeSpaceTests {
    /// A file system without a size limit reports the largest number of blocks that fits its type.
    @Test func anOverflowingFreeSpaceIsTheMaximum() {
        #expect(FreeSpace.bytes(inBlocks: 3, of: 4_096) == 12_288)
        #expect(FreeSpace.bytes(inBlocks: .max, of: 4_096) == .max)
    }
}
