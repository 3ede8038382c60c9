import RelayStore
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
