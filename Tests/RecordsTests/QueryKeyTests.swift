import Records
import Testing

/// The order of values in comparisons and sorts.
@Suite struct QueryKeyTests {
    /// A NUMBER field may contain both doubles and integers; SQLite's indexes order both as numbers.
    @Test func integersAndDoublesHaveOneOrder() {
        let keys: [QueryKey] = [
            .absent, .real(-.infinity), .real(-0x1p63), .number(.min + 1), .real(-2.5), .number(-2), .real(-0.5),
            .number(0),
            .real(0.5), .number(1), .real(0x1p53), .number((1 << 53) + 1), .number(.max), .real(0x1p63),
            .real(.infinity),
            .text(""),
        ]
        for (place, key) in keys.enumerated() {
            for (other, against) in keys.enumerated() {
                #expect((key < against) == (place < other), "\(key) \(against)")
                #expect((key == against) == (place == other), "\(key) \(against)")
            }
        }
        let pairs: [(Int64, Double)] = [(5, 5), (0, 0), (-7, -7), (.min, -0x1p63), (1 << 53, 0x1p53)]
        for (whole, real) in pairs {
            #expect(QueryKey.number(whole) == .real(real) && QueryKey.real(real) == .number(whole))
            #expect(Set([QueryKey.number(whole), .real(real)]).count == 1)
            #expect(!(QueryKey.number(whole) < .real(real)) && !(QueryKey.real(real) < .number(whole)))
        }
    }
}
