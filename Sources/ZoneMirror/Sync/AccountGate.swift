import GRDB
import SyncCore
import ZoneKit

/// Whose data a store holds: asked before anything is sent or fetched, and again after the credentials have changed.
///
/// Nothing passes for another user than the store's own.
actor AccountGate {
    private let file: StoreFile
    private let link: MirrorLink
    /// Tells the container that the user is another one than the store's.
    private let changed: @Sendable (_ previous: String?, _ current: String?) async -> Void
    private let turnstile = Turnstile()
    /// The credentials that have passed.
    private var passed: Int?

    init(
        file: StoreFile,
        link: MirrorLink,
        changed: @escaping @Sendable (_ previous: String?, _ current: String?) async -> Void
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
        if isPublic, connection.credentials.webAuthToken == nil {
            passed = generation
            return
        }
        let previous = (try? await file.pool.read { try State.text($0, .account) }) ?? nil
        let name: String
        do {
            name = try await link.callerName()
        } catch {
            if error.code == .notAuthenticated, let previous { await changed(previous, nil) }
            throw error
        }
        await connection.notices.accountIsUsable(generation: generation)
        if let previous, previous != name, !isPublic {
            await changed(previous, name)
            throw CKError(
                .notAuthenticated,
                "Another user has signed in; their own store is opened in place of this one."
            )
        }
        passed = generation
        if previous != name {
            try? await file.pool.write { try State.set($0, .account, name) }
            await changed(nil, name)
        }
    }
}
