import Foundation
import GRDB
package import Records
package import RelayCore

/// An operator's passkey: the public key of a key pair on their device.
package struct Passkey: Hashable, Sendable {
    /// The credential ID, up to 1,023 bytes.
    package var id: [UInt8]
    package var operatorID: Int64
    /// The name that the operator gave it.
    package var name: String
    /// The COSE algorithm identifier.
    package var algorithm: Int
    /// SubjectPublicKeyInfo, DER.
    package var publicKey: [UInt8]
    /// The relying party ID: the host of the console's address.
    package var host: String
    /// The authenticator's signature counter; 0 if it does not count.
    package var signCount: UInt32
    package var created: Timestamp
    package var used: Timestamp?

    package init(
        id: [UInt8],
        operatorID: Int64,
        name: String,
        algorithm: Int,
        publicKey: [UInt8],
        host: String,
        signCount: UInt32,
        created: Timestamp,
        used: Timestamp? = nil
    ) {
        self.id = id
        self.operatorID = operatorID
        self.name = name
        self.algorithm = algorithm
        self.publicKey = publicKey
        self.host = host
        self.signCount = signCount
        self.created = created
        self.used = used
    }
}

extension AccountStore {
    /// The maximum number of passkeys per operator.
    private static let mostPasskeys = 20

    package func addPasskey(_ passkey: Passkey) throws(DirectoryError) {
        try write { db in
            let count = try Int.fetchOne(
                db,
                sql: "SELECT count(*) FROM operator_passkeys WHERE operator = ?",
                arguments: [passkey.operatorID]
            )
            guard (count ?? 0) < Self.mostPasskeys else {
                throw DirectoryError.invalid("You have \(Self.mostPasskeys) passkeys. Delete one first.")
            }
            let known = try Bool.fetchOne(
                db,
                sql: "SELECT 1 FROM operator_passkeys WHERE id = ?",
                arguments: [Data(passkey.id)]
            )
            guard known != true else { throw DirectoryError.exists("passkey like this") }
            try db.execute(
                sql: """
                    INSERT INTO operator_passkeys(
                        id, operator, name, algorithm, public_key, host, sign_count, created
                    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Data(passkey.id), passkey.operatorID, passkey.name, passkey.algorithm, Data(passkey.publicKey),
                    passkey.host, Int64(passkey.signCount), passkey.created.milliseconds,
                ]
            )
        }
    }

    /// Returns an operator's passkeys, oldest first.
    package func passkeys(of id: Int64) throws(DirectoryError) -> [Passkey] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM operator_passkeys WHERE operator = ? ORDER BY created",
                arguments: [id]
            ).map(Self.passkey)
        }
    }

    /// Returns the passkey with this ID and its operator; `nil` if there is none.
    package func passkey(_ id: [UInt8]) throws(DirectoryError) -> (Passkey, Operator)? {
        let found = try read { db -> (Passkey, Int64)? in
            let row = try Row.fetchOne(
                db,
                sql: "SELECT * FROM operator_passkeys WHERE id = ?",
                arguments: [Data(id)]
            )
            return row.map { (Self.passkey($0), $0["operator"]) }
        }
        guard let found, let person = try operators().first(where: { $0.id == found.1 }) else { return nil }
        return (found.0, person)
    }

    /// Records that a passkey was used, with the authenticator's signature counter.
    package func usePasskey(_ id: [UInt8], signCount: UInt32) throws(DirectoryError) {
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "UPDATE operator_passkeys SET used = ?, sign_count = ? WHERE id = ?",
                arguments: [now, Int64(signCount), Data(id)]
            )
        }
    }

    package func removePasskey(_ id: [UInt8], ofOperator owner: Int64) throws(DirectoryError) {
        try write { db in
            try db.execute(
                sql: "DELETE FROM operator_passkeys WHERE id = ? AND operator = ?",
                arguments: [Data(id), owner]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("passkey like this") }
        }
    }

    private static func passkey(_ row: Row) -> Passkey {
        Passkey(
            id: Array(row["id"] as Data),
            operatorID: row["operator"],
            name: row["name"],
            algorithm: row["algorithm"],
            publicKey: Array(row["public_key"] as Data),
            host: row["host"],
            signCount: UInt32(clamping: row["sign_count"] as Int64),
            created: Timestamp(milliseconds: row["created"]),
            used: (row["used"] as Int64?).map(Timestamp.init(milliseconds:))
        )
    }
}
