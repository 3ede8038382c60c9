/// The operators, who may use the console, and the log of what they do.
///
/// Calls block their thread like those of `Directory`. Safe to call from any thread.
package protocol OperatorDirectory: Sendable {
    func operators() throws(DirectoryError) -> [Operator]

    // MARK: One-time links
    /// Creates a one-time link and returns its code, which is not stored.
    ///
    /// The link sets a new password for the named operator, or creates a new operator.
    func makeOperatorLink(for name: String?) throws(DirectoryError) -> String
    /// Returns whether a link's code is valid, and for which operator.
    func operatorLink(_ code: String) throws(DirectoryError) -> (isGood: Bool, name: String?)
    /// Uses up a link: creates an operator, or sets an operator's password and ends their sessions and passkeys.
    ///
    /// A new operator with the address of an account must give the account's password.
    func useOperatorLink(
        _ code: String,
        name: String,
        password: String
    ) throws(DirectoryError) -> Operator

    // MARK: Passwords and sign-ins
    /// Returns the operator if the password is correct; an unknown name takes the same time.
    func `operator`(name: String, password: String) throws(DirectoryError) -> Operator?
    /// Sets a password, and ends all sessions of the operator but `kept`: others may have known the old password.
    func setPassword(
        _ password: String,
        ofOperator id: Int64,
        keeping kept: String
    ) throws(DirectoryError)
    /// Removes an operator with all sessions, passkeys and links, each of which would give access again.
    func removeOperator(_ name: String) throws(DirectoryError)
    /// Signs an operator in; returns the secret for the browser's cookie, which is not stored.
    func startOperatorSession(_ id: Int64) throws(DirectoryError) -> String
    /// Returns the operator of a session if it is valid; records its use once a minute.
    func operatorSession(
        _ secret: String,
        _ rules: OperatorSessionRules
    ) throws(DirectoryError) -> Operator?
    func endOperatorSession(_ secret: String) throws(DirectoryError)

    // MARK: Passkeys
    func addPasskey(_ passkey: Passkey) throws(DirectoryError)
    /// Returns an operator's passkeys, oldest first.
    func passkeys(of id: Int64) throws(DirectoryError) -> [Passkey]
    /// Returns the passkey with this ID and its operator; `nil` if there is none.
    func passkey(_ id: [UInt8]) throws(DirectoryError) -> (Passkey, Operator)?
    /// Records that a passkey was used, with the authenticator's signature counter.
    func usePasskey(_ id: [UInt8], signCount: UInt32) throws(DirectoryError)
    func removePasskey(_ id: [UInt8], ofOperator owner: Int64) throws(DirectoryError)

    // MARK: Audit log
    func note(_ entry: AuditEntry) throws(DirectoryError)
    /// Runs `body`, whose first write adds the entry to the audit log in the same transaction.
    ///
    /// Nothing is thus done that the log lacks, and if the disk has no room for the entry, the action fails too. If
    /// `body` writes nothing here, the entry is added afterwards. Must be called by one thread that has the store to
    /// itself.
    func withAuditEntry<Value>(_ entry: AuditEntry, _ body: () throws -> Value) throws -> Value
    /// Returns at most `limit` entries, newest first.
    ///
    /// Only entries before `number` that contain `words` in their actor, action, container or subject.
    func auditEntries(
        before number: Int64?,
        with words: String,
        limit: Int
    ) throws(DirectoryError) -> [AuditEntry]
}

extension OperatorDirectory {
    /// Creates a one-time link for a new operator and returns its code.
    package func makeOperatorLink() throws(DirectoryError) -> String { try makeOperatorLink(for: nil) }

    /// Returns the newest entries of the audit log, at most `limit`.
    package func auditEntries(limit: Int) throws(DirectoryError) -> [AuditEntry] {
        try auditEntries(before: nil, with: "", limit: limit)
    }
}
