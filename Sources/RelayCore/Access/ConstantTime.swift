/// Comparison of secrets in constant time, so that timing does not reveal how much of a guess is right.
package enum ConstantTime {
    /// Returns whether two byte arrays are equal, in a time that depends only on their lengths.
    package static func areEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        guard a.count == b.count else { return false }
        var difference: UInt8 = 0
        for index in a.indices { difference |= a[index] ^ b[index] }
        return difference == 0
    }
}
