import GRDB
import SyncCore
import ZoneKit

/// Whose data a store holds: asked before anything is sent or fetched, and again after the credentials have changed.
///
/// Nothing passes for another user than the store's own.
actor AccountGate {
    /// What has been found out.
    enum Change: Equatable, Sendable {
        /// That user speaks; `previous` is whose the file is, where that is somebody else, or nobody.
        case `is`(String, previous: String?)
        /// The relay does not take what the user has to show.
        case refused
        /// The program has signed out; with whose the file is, where it is one user's alone.
        case signedOut(of: String?)
    }

    private let file: StoreFile
    private let link: MirrorLink
    /// Tells the container.
    private let changed: @Sendable (Change) async -> Void
    private let turnstile = Turnstile()
    /// The credentials that have passed.
    private var passed: Int?

    init(
        file: StoreFile,
        link: MirrorLink,
        changed: @escaping @Sendable (Change) async -> Void
    ) {
        self.file = file
        self.link = link
        self.changed = changed
    }

    func pass() async throws(CKError) {
        await turnstile.enter()
        defer { turnstile.leave() }
        let connection = try link.connection()
        let generation = connection.credentials.current.generation
        guard passed != generation else { return }
        let isPublic = link.database.databaseScope == .public
        if isPublic, !connection.credentials.namesUser {
            // Nobody may read too; what was found out of somebody before holds for their requests alone.
            if let previous = try await storedUser() { try await hand(from: previous, to: nil) }
            try link.belongs(to: generation)
            passed = generation
            await changed(.signedOut(of: nil))
            return
        }
        let previous = try await storedUser()
        if !isPublic, !connection.credentials.namesUser {
            if let previous, previous != AccountFiles.nobody { await changed(.signedOut(of: previous)) }
            throw CKError(.notAuthenticated, "Nobody is signed in. What is written meanwhile stays on this machine.")
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
            throw CKError(
                .notAuthenticated,
                "Another user has signed in; their own store is opened in place of this one."
            )
        }
        // Whose data the file holds stands in it before the first of them do: the next user is told from this one by that. And
        // before anything is asked in this one's name: a round that still goes through the line goes under the other's.
        if isPublic { try await hand(from: previous, to: name) } else if previous != name { try await store(name) }
        try link.belongs(to: generation)
        passed = generation
        // Also of the user whose the file was: they may have been refused meanwhile.
        await changed(.is(name, previous: nil))
    }

    private func storedUser() async throws(CKError) -> String? {
        do {
            return try await file.pool.read { try State.text($0, .account) }
        } catch {
            throw CKError(from: error)
        }
    }

    /// The public file stays behind its store whoever comes; what one user has changed there is not sent by the next, nor by
    /// nobody.
    private func hand(from previous: String?, to user: String?) async throws(CKError) {
        do {
            try await file.pool.write { db in
                try OutboxRow.hand(db, from: previous, to: user)
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
