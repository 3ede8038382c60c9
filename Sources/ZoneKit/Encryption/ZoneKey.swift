import Crypto
import Foundation
import Records
import Wire

/// The key of a zone's encrypted values, and its encryption for the users who may read them.
///
/// A sealed value is `"zc1" | key number (8) | nonce (12) | ciphertext | tag (16)`. The tag also authenticates the
/// record's type and name and the field's name, so that the relay cannot exchange values. The plaintext is the field in
/// the relay's JSON format, including its type.
struct ZoneKey: Sendable {
    private static let magic = Array("zc1".utf8)
    private static let suite = HPKE.Ciphersuite(kem: .Curve25519_HKDF_SHA256, kdf: .HKDF_SHA256, aead: .AES_GCM_256)

    /// The first bytes of the key's hash, which identify the key without revealing it.
    let number: [UInt8]
    private let key: SymmetricKey

    init() { self.init(SymmetricKey(size: .bits256)) }

    private init(_ key: SymmetricKey) {
        self.key = key
        number = Array(key.withUnsafeBytes { SHA256.hash(data: Data("zonecast key number".utf8) + Data($0)) }.prefix(8))
    }

    // MARK: Values

    func seal(_ value: FieldValue, for associatedData: [UInt8]) throws -> [UInt8] {
        var writer = JSONWriter()
        FieldCodec.write(value, to: &writer)
        let box = try AES.GCM.seal(writer.bytes, using: key, authenticating: associatedData)
        guard let combined = box.combined else { throw CKError(.internalError) }
        return Self.magic + number + combined
    }

    /// Decrypts a value.
    ///
    /// Returns `nil` if it was sealed with another key or for another field.
    func open(_ sealed: [UInt8], for associatedData: [UInt8]) -> FieldValue? {
        guard Self.isSealed(sealed), Array(sealed[3..<11]) == number,
            let box = try? AES.GCM.SealedBox(combined: sealed[11...]),
            let plain = try? AES.GCM.open(box, using: key, authenticating: associatedData),
            let document = try? JSONDocument(parsing: [UInt8](plain), limits: .response),
            let (fields, _) = try? ClientResponse.fields(
                JSONDocument(parsing: Array("{\"v\":".utf8) + document.root.rawBytes + Array("}".utf8)).root
            )
        else { return nil }
        return fields["v"]
    }

    /// Returns whether bytes have the form of a sealed value: the prefix, and at least a nonce and a tag.
    static func isSealed(_ bytes: [UInt8]) -> Bool { bytes.count >= 11 + 28 && bytes.starts(with: magic) }

    /// Returns the identification of a field, which the tag authenticates.
    static func associatedData(type: String, record: String, field: String) -> [UInt8] {
        Array("\(type)\u{0}\(record)\u{0}\(field)".utf8)
    }

    // MARK: Users

    /// Returns a sealed note of the public key with which a user got this key.
    ///
    /// Only owners of the zone key can write or read it.
    func pin(of publicKey: [UInt8], for user: String) throws -> [UInt8] {
        try seal(.bytes(publicKey), for: Self.pinAssociatedData(user))
    }

    /// Returns the public key in the note after a wrapped key; `nil` if there is none, or if it is about another user.
    func pinned(in keyField: [UInt8], for user: String) -> [UInt8]? {
        guard keyField.count > Self.wrappedSize,
            case .bytes(let publicKey)? = open(Array(keyField[Self.wrappedSize...]), for: Self.pinAssociatedData(user))
        else { return nil }
        return publicKey
    }

    private static func pinAssociatedData(_ user: String) -> [UInt8] {
        associatedData(type: KeyRecord.type, record: KeyRecord.name(of: user), field: "pin")
    }

    /// The size of the result of `wrapped(for:zoneName:)` in bytes.
    private static let wrappedSize = 32 + 32 + 16

    /// Encrypts the key for a user: encapsulated key (32 bytes), ciphertext (32) and tag (16).
    func wrapped(for publicKey: [UInt8], zoneName: String) throws -> [UInt8] {
        let recipient = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: publicKey)
        var sender = try HPKE.Sender(recipientKey: recipient, ciphersuite: Self.suite, info: Self.info(zoneName))
        let sealed = try key.withUnsafeBytes { try sender.seal(Data($0)) }
        return [UInt8](sender.encapsulatedKey) + sealed
    }

    /// Decrypts a wrapped key.
    ///
    /// Returns `nil` if it was encrypted for another user, or with a key that the user no longer has.
    init?(unwrapping wrapped: [UInt8], by userKey: Curve25519.KeyAgreement.PrivateKey, zoneName: String) {
        guard wrapped.count >= Self.wrappedSize,
            var recipient = try? HPKE.Recipient(
                privateKey: userKey,
                ciphersuite: Self.suite,
                info: Self.info(zoneName),
                encapsulatedKey: Data(wrapped[..<32])
            ),
            let key = try? recipient.open(Data(wrapped[32..<Self.wrappedSize])), key.count == 32
        else { return nil }
        self.init(SymmetricKey(data: key))
    }

    private static func info(_ zoneName: String) -> Data { Data("zonecast zone key 1 \(zoneName)".utf8) }
}
