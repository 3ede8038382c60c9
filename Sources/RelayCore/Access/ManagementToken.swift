package import Records

/// What lets a program change a container's schema from elsewhere, as CloudKit's management tokens let `cktool`.
///
/// It reads and writes no record and no account.
package struct ManagementToken: Hashable, Sendable {
    /// 16 hex digits naming the token in lists and the audit log; no secret.
    package var id: String
    package var container: ContainerID
    package var name: String
    package var created: Timestamp
    /// `nil`: never.
    package var expires: Timestamp?
    package var revoked: Timestamp?
    /// To the minute.
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
