import Crypto
import Foundation
import Records
import Wire

/// The key of a zone's encrypted values, and how it goes to those who may read them.
///
/// A sealed value is `"zc1" | key number (8) | nonce (12) | ciphertext | tag (16)`; the tag also covers the record's
/// type and name and the field's name, so that the relay cannot put one value in another's place. What is sealed is the
/// field as the wire has it, type and all.
struct ZoneKey: Sendable {
    private static let mark = Array("zc1".utf8)
    private static let suite = HPKE.Ciphersuite(kem: .Curve25519_HKDF_SHA256, kdf: .HKDF_SHA256, aead: .AES_GCM_256)

    /// The first bytes of the key's hash: tells keys apart and nothing about them.
    let number: [UInt8]
    private let key: SymmetricKey

    init() { self.init(SymmetricKey(size: .bits256)) }

    private init(_ key: SymmetricKey) {
        self.key = key
        number = Array(key.withUnsafeBytes { SHA256.hash(data: Data("zonecast key number".utf8) + Data($0)) }.prefix(8))
    }

    // MARK: Values

    func seal(_ value: FieldValue, for place: [UInt8]) throws -> [UInt8] {
        var writer = JSONWriter()
        FieldCodec.write(value, to: &writer)
        let box = try AES.GCM.seal(writer.bytes, using: key, authenticating: place)
        guard let combined = box.combined else { throw CKError(.internalError) }
        return Self.mark + number + combined
    }

    /// `nil` for what was sealed by another key or for another place.
    func open(_ sealed: [UInt8], for place: [UInt8]) -> FieldValue? {
        guard Self.isSealed(sealed), Array(sealed[3..<11]) == number,
            let box = try? AES.GCM.SealedBox(combined: sealed[11...]),
            let plain = try? AES.GCM.open(box, using: key, authenticating: place),
            let document = try? JSONDocument(parsing: [UInt8](plain), limits: .response),
            let (fields, _) = try? ClientResponse.fields(
                JSONDocument(parsing: Array("{\"v\":".utf8) + document.root.rawBytes + Array("}".utf8)).root
            )
        else { return nil }
        return fields["v"]
    }

    /// Whether these bytes look like what `seal` makes: its mark, and at least a nonce and a tag.
    static func isSealed(_ bytes: [UInt8]) -> Bool { bytes.count >= 11 + 28 && bytes.starts(with: mark) }

    /// What a value belongs to.
    static func place(type: String, record: String, field: String) -> [UInt8] {
        Array("\(type)\u{0}\(record)\u{0}\(field)".utf8)
    }

    // MARK: For people

    /// A note of the public key by which a user was given this key, to follow it: only who has the key can write or read one.
    func pin(of publicKey: [UInt8], for user: String) throws -> [UInt8] {
        try seal(.bytes(publicKey), for: Self.pinPlace(user))
    }

    /// The public key in the note that follows a wrapped key; `nil` where none does, or it is about another user.
    func pinned(in given: [UInt8], for user: String) -> [UInt8]? {
        guard given.count > Self.wrappedSize,
            case .bytes(let publicKey)? = open(Array(given[Self.wrappedSize...]), for: Self.pinPlace(user))
        else { return nil }
        return publicKey
    }

    private static func pinPlace(_ user: String) -> [UInt8] {
        place(type: KeyRecord.type, record: KeyRecord.name(of: user), field: "pin")
    }

    /// Bytes of what `wrapped` makes.
    private static let wrappedSize = 32 + 32 + 16

    /// The key, sealed for one user: encapsulated key (32), then ciphertext (32) and its tag (16).
    func wrapped(for publicKey: [UInt8], zoneName: String) throws -> [UInt8] {
        let recipient = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: publicKey)
        var sender = try HPKE.Sender(recipientKey: recipient, ciphersuite: Self.suite, info: Self.info(zoneName))
        let sealed = try key.withUnsafeBytes { try sender.seal(Data($0)) }
        return [UInt8](sender.encapsulatedKey) + sealed
    }

    /// `nil` when it was sealed for somebody else, or with a key that the user no longer has.
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
