import Foundation
import GRDB
import Records
import RelayCore
import RelaySystem
import SQLiteStore
import TestSupport
import Testing

@Suite struct AccountStoreTests {
    let folder = ScratchFolder()

    private func open() throws -> AccountStore {
        try AccountStore(folder: folder.path, cost: ScryptCost(rounds: 16, blockSize: 8, parallelism: 1))
    }

    private func home(_ name: String = "iCloud.org.example.notes", _ environment: Records.Environment = .development)
        throws
        -> ContainerEnvironment
    {
        ContainerEnvironment(try #require(ContainerID(name)), environment)
    }

    @Test func everyAcknowledgedChangeSurvivesAPowerFailure() throws {
        let store = try open()
        #expect(try store.pragma("synchronous") == "2")
        #expect(try store.pragma("journal_mode") == "wal")
        #expect(try store.pragma("integrity_check") == "ok")
    }

    @Test func theFileIsReadableByItsOwnerOnly() throws {
        _ = try open()
        for name in ["relay.sqlite", "relay.sqlite-wal"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    @Test func onlyTheHashOfAnAPITokenIsStored() throws {
        let store = try open()
        let home = try home()
        try store.addContainer(home.container)
        let (text, _) = try store.addAPIToken(
            in: home,
            name: "web",
            notes: "the site",
            callbackURL: "https://app.example/done",
            allowedOrigins: ["https://app.example", "https://b.example"]
        )
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: folder.path + "/" + name))
            #expect(bytes.range(of: Data(text.utf8)) == nil, "\(name) holds the token itself")
        }
    }

    @Test func aRaisedHashingCostKeepsOldPasswordsValid() throws {
        try open().addAccount(email: "a@b.c", password: "correct horse")
        let dearer = try AccountStore(folder: folder.path, cost: ScryptCost(rounds: 32, blockSize: 8, parallelism: 2))
        #expect(try dearer.account(email: "a@b.c", password: "correct horse") != nil)
    }

    @Test func aFileOfANewerVersionIsNotOpened() throws {
        _ = try open()
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: folder.path + "/relay.sqlite"))
        try queue.write { db in try db.execute(sql: "PRAGMA user_version = 99") }
        #expect(throws: DirectoryError.self) { try open() }
    }
}
