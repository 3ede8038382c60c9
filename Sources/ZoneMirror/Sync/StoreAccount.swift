import GRDB
import SyncCore
import Synchronization
import ZoneKit

/// The user to whom a store belongs.
///
/// No request is sent in the name of another user than the store's own.
package final class StoreAccount: Sendable {
    /// The result of a check of the account.
    package enum Change: Equatable, Sendable {
        /// This user is signed in; `previous` is the user whose data the file holds, if it is another one.
        case `is`(String, previous: String?)
        /// The relay rejects the user's credentials.
        case refused
        /// The program has signed out.
        ///
        /// The value is the user whose data the file holds, if it holds one user's data only.
        case signedOut(of: String?)
    }

    private let file: StoreFile
    private let database: CKDatabase
    /// Reports a change to the container.
    private let changed: @Sendable (Change) async -> Void
    /// The user for whom the store reads and writes, whichever user signs in; `nil` until the sign-in was checked.
    private let bound = Mutex<AccountBinding?>(nil)

    init(of file: StoreFile, _ database: CKDatabase, changed: @escaping @Sendable (Change) async -> Void) {
        self.file = file
        self.database = database
        self.changed = changed
    }

    private var isPublic: Bool { database.databaseScope == .public }

    var binding: AccountBinding? { bound.withLock { $0 } }

    /// Sends requests in the name of the user who owns the store, or not at all.
    ///
    /// A write whose response is lost is repeated until there is a response.
    var client: any RelayClient { client(of: nil) }

    /// A client that stays with the current user, even if another one is found later, since the changes to send were
    /// read as that user's.
    var clientOfCurrentUser: any RelayClient { client(of: binding) }

    private func client(of user: AccountBinding?) -> any RelayClient {
        var settings = RequestSettings()
        settings.isRepeated = true
        return database.session.client(of: database.scope, settings) { [self] in user ?? binding }
    }

    /// Notes that the sign-in of this generation belongs to the user who owns the store.
    private func bind(to generation: Int) throws(CKError) {
        let binding = AccountBinding(try database.session.connection(), generation: generation)
        bound.withLock { $0 = binding }
    }

    func userIsMissing(_ generation: Int) async throws {
        let previous = try await storedUser()
        guard isPublic else {
            if let previous, previous != AccountFiles.noUser { await changed(.signedOut(of: previous)) }
            throw CKError(.notAuthenticated, "No user is signed in. Changes stay on this device until a user signs in.")
        }
        // Requests without a user may read a public database, but the previous user's unsent changes must wait for
        // that user.
        if let previous { try await switchUser(from: previous, to: nil) }
        try bind(to: generation)
        await changed(.signedOut(of: nil))
    }

    func userIsRefused() async throws {
        if try await storedUser() != nil { await changed(.refused) }
    }

    func userIsKnown(_ name: String, _ generation: Int) async throws {
        let previous = try await storedUser()
        if let previous, previous != name, !isPublic {
            await changed(.is(name, previous: previous))
            throw CKError.anotherUser
        }
        // The file's user is stored before this user's data is, so that the next user can be distinguished from this
        // one. It is stored before any request in this user's name: a round still under way continues in the previous
        // name.
        if isPublic {
            try await switchUser(from: previous, to: name)
        } else if previous != name {
            try await file.pool.write { try State.set($0, .account, name) }
        }
        try bind(to: generation)
        // Also reported for the file's own user, whose credentials may have been rejected before.
        await changed(.is(name, previous: nil))
    }

    private func storedUser() async throws -> String? { try await file.pool.read { try State.text($0, .account) } }

    /// Parks the unsent changes of the previous user of a public database and activates those of `user`.
    ///
    /// A public store keeps its file when the user changes. Another user, or a request without a user, must not send
    /// these changes.
    private func switchUser(from previous: String?, to user: String?) async throws {
        try await file.pool.write { db in
            if let previous, previous != user { try SentRequest.removeAll(db) }
            try RecordTable(db).switchUser(from: previous, to: user)
            try Refusals.switchUser(db, from: previous, to: user)
            if let user, user != previous { try State.set(db, .account, user) }
        }
    }
}
