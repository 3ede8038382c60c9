/// Returns a hash of the statements of a SQLite schema, independent of their order, spaces and comments.
///
/// Tests use it to notice a change of tables whose files may exist already.
package func schemaFingerprint(_ statements: [String]) -> String {
    let plain = statements.map { statement in
        statement.split(separator: "\n").map { $0.prefix(upTo: $0.firstRange(of: "--")?.lowerBound ?? $0.endIndex) }
            .joined(separator: " ").split(separator: " ").joined(separator: " ")
    }
    // FNV-1a, because Swift's own hashes differ in each process.
    let hash = plain.sorted().joined(separator: ";").utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) {
        ($0 ^ UInt64($1)) &* 0x100_0000_01B3
    }
    return String(hash, radix: 16)
}
