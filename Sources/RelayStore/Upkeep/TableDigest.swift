import Crypto
import Foundation
import GRDB

/// A digest of a table's rows: equal for two files exactly if they contain the same rows, in any order.
struct TableDigest: Hashable, Sendable {
    private(set) var rows = 0
    /// The sum of the hashes of all rows, word by word: independent of the order, and equal rows count each time.
    private var lanes: [UInt64] = [0, 0, 0, 0]

    /// Returns the digests of all tables of a file, by name.
    static func all(ofFile path: String) throws -> [String: TableDigest] {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(30)
        configuration.prepareDatabase { CheckedVFS.leaveRoom($0) }
        let queue = try DatabaseQueue.ofStore(path, configuration)
        defer { try? queue.close() }
        return try queue.read { database in
            let names = try String.fetchAll(
                database,
                sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
            var digests: [String: TableDigest] = [:]
            for name in names { digests[name] = try TableDigest(of: name, in: database) }
            return digests
        }
    }

    private init(of table: String, in database: Database) throws {
        let rows = try Row.fetchCursor(database, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier)")
        while let row = try rows.next() {
            self.rows += 1
            var hasher = SHA256()
            for value in row.databaseValues { Self.update(&hasher, with: value) }
            let hash = Array(hasher.finalize())
            for lane in lanes.indices {
                let word = hash[(lane * 8)..<(lane * 8 + 8)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                lanes[lane] &+= word
            }
        }
    }

    /// Hashes the type, the length and the bytes, so that no two different rows have the same input.
    private static func update(_ hasher: inout SHA256, with value: DatabaseValue) {
        let (kind, bytes): (UInt8, [UInt8]) =
            switch value.storage {
            case .null: (0, [])
            case .int64(let number): (1, withUnsafeBytes(of: number.bigEndian) { Array($0) })
            case .double(let number): (2, withUnsafeBytes(of: number.bitPattern.bigEndian) { Array($0) })
            case .string(let text): (3, Array(text.utf8))
            case .blob(let data): (4, Array(data))
            }
        hasher.update(data: [kind])
        withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { hasher.update(bufferPointer: $0) }
        hasher.update(data: bytes)
    }
}
