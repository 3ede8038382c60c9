import Foundation
import GRDB
import Records
import RelayCore
import RelayStore
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
        let (text, token) = try store.addAPIToken(
            in: home,
            name: "web",
            notes: "the site",
            callbackURL: "https://app.example/done",
            allowedOrigins: ["https://app.example", "https://b.example"]
        )
        #expect(Hex.isDigits(text, count: 64))
        #expect(try store.apiTokens() == [token])
        #expect(token.allowedOrigins.count == 2)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: folder.path + "/" + name))
            #expect(bytes.range(of: Data(text.utf8)) == nil, "\(name) holds the token itself")
        }
        let before = try store.generation()
        try store.revokeAPIToken(token.id)
        #expect(try store.generation() != before)
        #expect(try store.apiTokens().first?.revoked != nil)
        #expect(throws: DirectoryError.missing("such API token")) { try store.revokeAPIToken("0000000000000000") }
    }

    @Test func tokensAndKeysNeedTheirContainer() throws {
        let store = try open()
        let missing = DirectoryError.missing("container iCloud.org.example.notes")
        #expect(throws: missing) {
            try store.addAPIToken(in: home(), name: "", notes: "", callbackURL: nil, allowedOrigins: [])
        }
        #expect(throws: DirectoryError.self) { try store.addServerKey(in: home(), name: "", publicKeyPEM: "no key") }
    }

    @Test func aPasswordSignsInToItsOwnAccountOnly() throws {
        let store = try open()
        let alice = try store.addAccount(email: "Alice@Example.org", password: "correct horse")
        try store.addAccount(email: "bob@example.org", password: "battery staple")
        #expect(try store.account(email: "alice@example.org ", password: "correct horse") == alice)
        #expect(try store.account(email: "alice@example.org", password: "battery staple") == nil)
        #expect(try store.account(email: "carol@example.org", password: "correct horse") == nil)
        #expect(try store.account(email: "not an address", password: "correct horse") == nil)
        #expect(throws: DirectoryError.exists("user alice@example.org")) {
            try store.addAccount(email: "ALICE@example.org", password: "another one")
        }
        try store.setPassword("a new password", of: alice.id)
        #expect(try store.account(email: "alice@example.org", password: "correct horse") == nil)
        #expect(try store.account(email: "alice@example.org", password: "a new password") == alice)
        try store.setDisabled(true, of: alice.id)
        #expect(try store.account(email: "alice@example.org", password: "a new password") == nil)
    }

    @Test func tooShortAndTooLongPasswordsAreRefused() throws {
        let store = try open()
        for password in ["", "seven77", String(repeating: "x", count: 1025)] {
            #expect(throws: DirectoryError.self) { try store.addAccount(email: "a@b.c", password: password) }
        }
        #expect(try store.accounts().isEmpty)
    }

    @Test func aRaisedHashingCostKeepsOldPasswordsValid() throws {
        try open().addAccount(email: "a@b.c", password: "correct horse")
        let dearer = try AccountStore(folder: folder.path, cost: ScryptCost(rounds: 32, blockSize: 8, parallelism: 2))
        #expect(try dearer.account(email: "a@b.c", password: "correct horse") != nil)
    }

    @Test func aUserHasADifferentRecordNameInEachContainerAndEnvironment() throws {
        let store = try open()
        let account = try store.devAccount(named: "alice")
        #expect(try store.devAccount(named: "alice") == account)
        let homes = [try home(), try home("iCloud.other"), try home("iCloud.other", .production)]
        let users = try homes.map { try store.user(of: account.id, in: $0) }
        #expect(Set(users).count == 3)
        for (home, user) in zip(homes, users) {
            #expect(try store.user(of: account.id, in: home) == user)
            #expect(user.recordName.hasPrefix("_") && Hex.isDigits(String(user.recordName.dropFirst()), count: 32))
            #expect(try store.accounts(of: users, in: home) == [user: account])
        }
    }

    @Test func twoProcessesSeeEachOthersChanges() throws {
        let one = try open()
        let two = try open()
        #expect(try one.relayKey() == two.relayKey())
        let home = try home()
        try one.addContainer(home.container)
        #expect(try two.hasContainer(home.container))
        #expect(throws: DirectoryError.exists("container iCloud.org.example.notes")) {
            try two.addContainer(home.container)
        }
        let account = try two.devAccount(named: "alice")
        let session = Session(
            id: Session.ID(7),
            secretHash: [1, 2],
            account: account.id,
            home: home,
            kind: .kept,
            created: Timestamp(milliseconds: 5)
        )
        let before = try one.generation()
        try two.addSession(session)
        #expect(try one.session(session.id) == session)
        #expect(try one.generation() == before, "additions do not invalidate caches")
        try two.setDisabled(true, of: account.id)
        #expect(try one.session(session.id)?.revoked != nil)
        #expect(try one.generation() != before)
        try two.setDisabled(false, of: account.id)
        #expect(try one.session(session.id)?.revoked != nil)
    }

    @Test func aFileOfANewerVersionIsNotOpened() throws {
        _ = try open()
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: folder.path + "/relay.sqlite"))
        try queue.write { db in try db.execute(sql: "PRAGMA user_version = 99") }
        #expect(throws: DirectoryError.self) { try open() }
    }
}
