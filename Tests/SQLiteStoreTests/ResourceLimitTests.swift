import RelaySystem
import SQLiteStore
import Testing

@Suite struct DescriptorSharesTests {
    /// Includes connections that are refused because there are too many, and some descriptors for other uses.
    @Test(arguments: [
        (-1, Int.max, 256), (.max, .max, 256), (0, 1, 4), (150, 40, 4), (1_024, 560, 32), (20_000, 16_180, 256),
        (65_536, 57_580, 256),
    ])
    func connectionsAndStoresFitIntoTheDescriptorLimit(_ files: Int, _ connections: Int, _ stores: Int) {
        let shares = DescriptorShares(descriptors: files)
        #expect(shares.connections == connections)
        #expect(shares.stores == stores)
        let isLimited = files > 0 && files < .max
        #expect(!isLimited || connections + connections / 10 + 16 + stores * 8 + 48 <= files)
    }
}

@Suite struct FreeSpaceTests {
    /// A file system without a size limit reports the largest number of blocks that fits its type.
    @Test func anOverflowingFreeSpaceIsTheMaximum() {
        #expect(FreeSpace.bytes(inBlocks: 3, of: 4_096) == 12_288)
        #expect(FreeSpace.bytes(inBlocks: .max, of: 4_096) == .max)
    }
}
