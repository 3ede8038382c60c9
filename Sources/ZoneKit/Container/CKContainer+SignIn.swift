public import Foundation

extension Notification.Name {
    /// The container's user, or what is known of them, may be another: ask `accountStatus()` again.
    ///
    /// Posted on the default center, on the thread of whoever changed it.
    public static let CKAccountChanged = Notification.Name("CKAccountChangedNotification")
}

extension CKContainer {
    /// Speaks as somebody else from now on, in all containers that share this one's connection.
    ///
    /// Sync engines find out at once, tell their delegates by `accountChange`, and begin anew for the new account; nothing
    /// that is pending for the old one reaches it.
    ///
    /// - Parameter credential: As whom.
    /// - Throws: `badContainer` when no relay is configured. Whether the relay takes the credential is said by the next
    ///   request, or by `accountStatus()`.
    public func signIn(_ credential: RelayCredential) async throws {
        let connection = try session.connection()
        connection.credentials.replace(by: credential)
        connection.caller.forget(generation: connection.credentials.current.generation)
        connection.zoneKeys.forget()
        await connection.notices.accountReplaced()
        NotificationCenter.default.post(name: .CKAccountChanged, object: nil)
    }

    /// Speaks as nobody from now on; see `signIn(_:)`.
    public func signOut() async throws { try await signIn(.nobody) }
}
