package import Records

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
