import Foundation
import GRDB
package import Records
package import RelayCore

extension AccountStore {
    package func issuers(of container: ContainerID) throws(DirectoryError) -> [ForeignIssuer] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM issuers WHERE container = ? ORDER BY issuer",
                arguments: [container.name]
            ).compactMap(Self.issuer)
        }
    }

    package func issuer(named name: String, of container: ContainerID) throws(DirectoryError) -> TrustedIssuer? {
        try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM issuers WHERE container = ? AND issuer = ?"),
                arguments: [container.name, name]
            ).flatMap { row in
                Self.issuer(row).map { TrustedIssuer(issuer: $0, revision: UInt64(bitPattern: row["revision"])) }
            }
        }
    }

    /// Returns the issuers of all containers.
    package func issuers() throws(DirectoryError) -> [ForeignIssuer] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM issuers ORDER BY container, issuer").compactMap(Self.issuer)
        }
    }

    /// Adds an issuer, replacing one of the same name, and gives it a greater revision.
    package func putIssuer(_ issuer: ForeignIssuer) throws(DirectoryError) {
        guard try hasContainer(issuer.container) else { throw .missing("container \(issuer.container)") }
        let claims = issuer.claims.map { "\($0.key.rawValue)=\($0.value)" }.sorted().joined(separator: "\n")
        let algorithms = issuer.algorithms.map(\.rawValue).sorted().joined(separator: ",")
        let (url, file): (String?, String?) =
            switch issuer.keys {
            case .url(let address): (address, nil)
            case .file(let path): (nil, path)
            }
        try revoke { db in
            try db.execute(
                sql: """
                    INSERT OR REPLACE INTO issuers(container, issuer, audiences, algorithms, keys_url, keys_file,
                        claims, trusts_contacts, created, revision)
                    SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, revocations + 1 FROM relay
                    """,
                arguments: [
                    issuer.container.name, issuer.issuer, issuer.audiences.joined(separator: "\n"), algorithms, url,
                    file, claims, issuer.trustsContacts, issuer.created.milliseconds,
                ]
            )
        }
    }

    /// Removes an issuer, and ends the sessions of its users in the container.
    package func removeIssuer(_ issuer: String, of container: ContainerID) throws(DirectoryError) {
        let now = time.now().milliseconds
        try revoke { db in
            try db.execute(
                sql: "DELETE FROM issuers WHERE container = ? AND issuer = ?",
                arguments: [container.name, issuer]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("issuer \(issuer)") }
            try db.execute(
                sql: """
                    UPDATE sessions SET revoked = ?1 WHERE container = ?2 AND revoked IS NULL AND account IN (
                        SELECT id FROM accounts WHERE is_dev = ?3 AND substr(login, 1, length(?4) + 1) = ?4 || char(10)
                    )
                    """,
                arguments: [now, container.name, LoginWay.foreign.rawValue, issuer]
            )
        }
    }

    private static func issuer(_ row: Row) -> ForeignIssuer? {
        let place: ForeignIssuer.KeyPlace? =
            (row["keys_url"] as String?).map { .url($0) } ?? (row["keys_file"] as String?).map { .file($0) }
        guard let container = ContainerID(row["container"]), let place else { return nil }
        let claims = (row["claims"] as String).split(separator: "\n").compactMap { line in
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            return parts.count == 2 ? ForeignIssuer.Field(rawValue: parts[0]).map { ($0, parts[1]) } : nil
        }
        return ForeignIssuer(
            container: container,
            issuer: row["issuer"],
            audiences: (row["audiences"] as String).split(separator: "\n").map(String.init),
            algorithms: Set(
                (row["algorithms"] as String).split(separator: ",").compactMap {
                    ForeignIssuer.Algorithm(rawValue: String($0))
                }
            ),
            keys: place,
            claims: Dictionary(claims) { $1 },
            trustsContacts: row["trusts_contacts"],
            created: Timestamp(milliseconds: row["created"])
        )
    }
}
