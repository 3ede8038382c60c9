import Crypto
import Foundation
import RelayCore

/// A request's signature in AWS's fourth version, which S3-compatible services verify.
///
/// The reference is "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)" in Amazon's S3 manual.
package struct S3Signature {
    package var method: String
    /// The path as it is sent.
    package var path: String
    /// The parameters, not escaped.
    package var query: [(name: String, value: String)] = []
    /// The headers to sign, their names in lower case; `x-amz-date` is added.
    package var headers: [(name: String, value: String)]
    /// The SHA-256 of the body in hex.
    package var bodyHash: String

    package init(
        method: String,
        path: String,
        query: [(name: String, value: String)] = [],
        headers: [(name: String, value: String)],
        bodyHash: String
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.bodyHash = bodyHash
    }

    /// Returns the value of the header `authorization` for the time in `x-amz-date`, such as `20130524T000000Z`.
    package func authorization(_ settings: S3Settings, time: String) -> String {
        let headers = (headers + [("x-amz-date", time)]).sorted { $0.name < $1.name }
        let names = headers.map(\.name).joined(separator: ";")
        let request = [
            method, path, Self.text(of: query),
            headers.map { "\($0.name):\($0.value)\n" }.joined(), names, bodyHash,
        ].joined(separator: "\n")
        let day = String(time.prefix(8))
        let scope = "\(day)/\(settings.region)/s3/aws4_request"
        let text = ["AWS4-HMAC-SHA256", time, scope, Self.hash(request)].joined(separator: "\n")
        var key = SymmetricKey(data: Array("AWS4\(settings.secretKey)".utf8))
        for part in [day, settings.region, "s3", "aws4_request"] {
            key = SymmetricKey(data: Array(HMAC<SHA256>.authenticationCode(for: Array(part.utf8), using: key)))
        }
        let signature = Hex.encode(HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key))
        return
            "AWS4-HMAC-SHA256 Credential=\(settings.accessKey)/\(scope),SignedHeaders=\(names),Signature=\(signature)"
    }

    static func hash(_ text: String) -> String { Hex.encode(SHA256.hash(data: Array(text.utf8))) }

    /// Returns parameters as they are sent and signed: escaped, and sorted by their names.
    package static func text(of query: [(name: String, value: String)]) -> String {
        query.map { (escaped($0.name), escaped($0.value)) }.sorted { $0.0 < $1.0 }.map { "\($0)=\($1)" }
            .joined(separator: "&")
    }

    private static func escaped(_ text: String) -> String {
        text.utf8.map { isUnreserved($0) ? String(UnicodeScalar($0)) : "%" + Hex.encode([$0]).uppercased() }.joined()
    }

    static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
