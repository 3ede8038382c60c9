package import Records

/// A credential that lets a program change a container's schema remotely, as CloudKit's management tokens do for
/// `cktool`.
///
/// It gives no access to records or accounts.
package struct ManagementToken: Hashable, Sendable {
    /// 16 hex digits that identify the token in lists and the audit log; not secret.
    package var id: String
    package var container: ContainerID
    package var name: String
    package var created: Timestamp
    /// `nil` if it never expires.
    package var expires: Timestamp?
    package var revoked: Timestamp?
    /// The time of the last use, rounded to minutes.
    package var used: Timestamp?

    package init(
        id: String,
        container: ContainerID,
        name: String,
        created: Timestamp,
        expires: Timestamp? = nil,
        revoked: Timestamp? = nil,
        used: Timestamp? = nil
    ) {
        self.id = id
        self.container = container
        self.name = name
        self.created = created
        self.expires = expires
        self.revoked = revoked
        self.used = used
    }

    package func isGood(at now: Timestamp) -> Bool { revoked == nil && expires.map { now < $0 } ?? true }
}
