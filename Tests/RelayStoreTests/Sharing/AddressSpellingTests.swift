import Foundation
import GRDB
import Records
import RelayCore
import Testing

@testable import RelayStore

/// Invitations that an older version stored in the client's spelling.
@Suite struct AddressSpellingTests {
    @Test("invitations in an older spelling are found by the canonical spelling of the account's address")
    func olderInvitations() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "store.sqlite").path
        let version = try #require(StoreLayout.migrator.migrations.firstIndex(of: "34 one spelling of addresses"))
        try EarlierLayout.makeStore(path, version: version, records: 1)
        let queue = try DatabaseQueue(path: path)
        let spellings = [
            "ada@xn--bcher-kva.example", "ada@b\u{FC}cher.example", "ada@example.org", "ada@[192.0.2.1]",
        ]
        try await queue.write { database in
            for (number, address) in spellings.enumerated() {
                try database.execute(
                    sql: """
                        INSERT INTO share (id, zone, name, guid, public_permission) VALUES (?1, 2, 's' || ?1, 'g' || ?1, 1);
                        INSERT INTO participant (share, id, place, role, permission, accepted, email)
                            VALUES (?1, 'p', 0, 3, 2, 0, ?2);
                        """,
                    arguments: [number + 1, number + 1, address]
                )
            }
        }
        try queue.close()
        let store = try SQLiteStore(.file(path: path), draw: { 7 }, onCommit: { _ in })
        defer { store.close() }
        func shares(_ address: String) throws -> [String] {
            let contact = Share.Contact.email(try #require(AccountRules.canonicalEmail(address)))
            return try store.read { reader throws(RelayError) in
                try reader.shares(inviting: [contact]).map(\.record)
            }
        }
        #expect(try shares("ada@b\u{FC}cher.example") == ["s1", "s2"])
        #expect(try shares("ADA@XN--BCHER-KVA.example") == ["s1", "s2"])
        #expect(try shares("ada@example.org") == ["s3"])
        #expect(try shares("ada@[192.0.2.1]") == ["s4"])
    }
}
