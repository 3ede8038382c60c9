/// Comparing secrets without telling, by the time it takes, how much of them was right.
package enum ConstantTime {
    /// Takes the same time for any two contents of one length.
    package static func areEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        guard a.count == b.count else { return false }
        var difference: UInt8 = 0
        for index in a.indices { difference |= a[index] ^ b[index] }
        return difference == 0
    }
}
