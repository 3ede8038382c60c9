import Crypto
import Foundation

/// A server-to-server key, which signs each request.
///
/// See Wire.md, "Server-to-server keys".
struct ServerKey: Sendable {
    let id: String
    private let key: P256.Signing.PrivateKey

    /// Returns `nil` if the text is not a P-256 private key in PEM format.
    init?(id: String, pem: String) {
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else { return nil }
        self.id = id
        self.key = key
    }

    /// Returns the headers that sign a request at a given time.
    func headers(path: String, body: [UInt8], at date: Date) throws(CKError) -> [(name: String, value: String)] {
        let moment = date.formatted(.iso8601)
        let hash = Data(SHA256.hash(data: body)).base64EncodedString()
        let message = Data("\(moment):\(hash):\(path)".utf8)
        guard let signature = try? key.signature(for: message) else {
            throw CKError(.notAuthenticated, "The request could not be signed with the server key \(id).")
        }
        return [
            ("X-Apple-CloudKit-Request-KeyID", id),
            ("X-Apple-CloudKit-Request-ISO8601Date", moment),
            ("X-Apple-CloudKit-Request-SignatureV1", signature.derRepresentation.base64EncodedString()),
        ]
    }
}
