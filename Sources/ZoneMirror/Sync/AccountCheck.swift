import GRDB
import SyncCore
import ZoneKit

/// Checks that a store belongs to the signed-in user, before anything is sent or fetched and after each change of
/// credentials.
///
/// No request is sent in the name of another user than the store's own.
actor AccountCheck {
    /// The result of a check.
    enum Change: Equatable, Sendable {
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
    private let link: MirrorLink
    /// Reports a change to the container.
    private let changed: @Sendable (Change) async -> Void
    private let lock = AsyncLock()
    /// The generation of the credentials that were checked.
    private var checkedGeneration: Int?

    init(
        file: StoreFile,
        link: MirrorLink,
        changed: @escaping @Sendable (Change) async -> Void
    ) {
        self.file = file
        self.link = link
        self.changed = changed
    }

    func check() async throws(CKError) {
        await lock.enter()
        defer { lock.leave() }
        let connection = try link.connection()
        let generation = connection.credentials.current.generation
        guard checkedGeneration != generation else { return }
        let isPublic = link.database.databaseScope == .public
        if isPublic, !connection.credentials.identifiesUser {
            // Requests without a user may read a public database, but the previous user's unsent changes must wait for
            // that user.
            if let previous = try await storedUser() { try await switchUser(from: previous, to: nil) }
            try link.bind(to: generation)
            checkedGeneration = generation
            await changed(.signedOut(of: nil))
            return
        }
        let previous = try await storedUser()
        if !isPublic, !connection.credentials.identifiesUser {
            if let previous, previous != AccountFiles.noUser { await changed(.signedOut(of: previous)) }
            throw CKError(.notAuthenticated, "No user is signed in. Changes stay on this device until a user signs in.")
        }
        let name: String
        do {
            name = try await link.callerName()
        } catch {
            if error.code == .notAuthenticated, previous != nil { await changed(.refused) }
            throw error
        }
        await connection.notices.accountIsUsable(generation: generation)
        if let previous, previous != name, !isPublic {
            await changed(.is(name, previous: previous))
            throw .anotherUser
        }
        // The file's user is stored before this user's data is, so that the next user can be distinguished from this
        // one. It is stored before any request in this user's name: a round still under way continues in the previous
        // name.
        if isPublic {
            try await switchUser(from: previous, to: name)
        } else if previous != name {
            try await store(name)
        }
        try link.bind(to: generation)
        checkedGeneration = generation
        // Also reported for the file's own user, whose credentials may have been rejected before.
        await changed(.is(name, previous: nil))
    }

    private func storedUser() async throws(CKError) -> String? {
        do {
            return try await file.pool.read { try State.text($0, .account) }
        } catch {
            throw CKError(from: error)
        }
    }

    /// Parks the unsent changes of the previous user of a public database and activates those of `user`.
    ///
    /// A public store keeps its file when the user changes. Another user, or a request without a user, must not send
    /// these changes.
    private func switchUser(from previous: String?, to user: String?) async throws(CKError) {
        do {
            try await file.pool.write { db in
                if let previous, previous != user { try SentRequest.removeAll(db) }
                try RecordTable(db).switchUser(from: previous, to: user)
                try Refusals.switchUser(db, from: previous, to: user)
                if let user, user != previous { try State.set(db, .account, user) }
            }
        } catch {
            throw CKError(from: error)
        }
    }

    private func store(_ user: String) async throws(CKError) {
        do {
            try await file.pool.write { try State.set($0, .account, user) }
        } catch {
            throw CKError(from: error)
        }
    }
}
