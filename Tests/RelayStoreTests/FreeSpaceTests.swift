import RelayStore
import Testing

@Suite struct FreeSpaceTests {
    /// A file system without bounds names as many blocks as fit into its number.
    @Test func whatIsMoreThanCanBeCountedIsAllThereIs() {
        #expect(FreeSpace.bytes(inBlocks: 3, of: 4_096) == 12_288)
        #expect(FreeSpace.bytes(inBlocks: .max, of: 4_096) == .max)
    }
}
