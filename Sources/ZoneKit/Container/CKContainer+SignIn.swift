public import Foundation

extension Notification.Name {
    /// The container's user, or what is known about the user, may have changed.
    ///
    /// Call `accountStatus()` again. Posted to the default notification center, on the thread that caused the change.
    public static let CKAccountChanged = Notification.Name("CKAccountChangedNotification")
}

extension CKContainer {
    /// Signs in as another user, for all containers that share this container's connection.
    ///
    /// Sync engines notice the change at once, send `accountChange` to their delegates, and start again for the new
    /// account. Changes that are pending for the old account are never sent to the new one.
    ///
    /// - Parameter credential: The credential of the user.
    /// - Throws: `badContainer` if no relay is configured. The next request, or `accountStatus()`, reports whether the
    ///   relay accepts the credential.
    public func signIn(_ credential: RelayCredential) async throws {
        let connection = try session.connection()
        connection.credentials.replace(by: credential)
        connection.caller.forget(generation: connection.credentials.current.generation)
        connection.zoneKeys.forget()
        await connection.notices.accountReplaced()
        NotificationCenter.default.post(name: .CKAccountChanged, object: nil)
    }

    /// Signs out; see `signIn(_:)`.
    public func signOut() async throws { try await signIn(.nobody) }
}
