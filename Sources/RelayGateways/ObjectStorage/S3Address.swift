import Foundation
import Records

/// A place in S3-compatible storage: a bucket, and the prefix of the names of all objects in it.
package struct S3Address: Hashable, Sendable, CustomStringConvertible {
    package var bucket: String
    /// Without slashes at its ends; empty for the whole bucket.
    package var prefix: String

    /// Parses `s3://bucket/prefix`; `nil` if it is something else.
    ///
    /// Accepts only characters that need no escaping in a URL, so that the signed name is the name that is sent.
    package init?(_ text: String) {
        guard text.hasPrefix("s3://") else { return nil }
        let parts = text.dropFirst("s3://".count).split(separator: "/", omittingEmptySubsequences: true).map(
            String.init
        )
        guard let bucket = parts.first, (3...63).contains(bucket.utf8.count),
            bucket.utf8.allSatisfy({ Self.isLowercaseOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
            ),
            let first = bucket.utf8.first, Self.isLowercaseOrDigit(first),
            parts.dropFirst().allSatisfy({ $0 != "." && $0 != ".." && $0.utf8.allSatisfy(S3Signature.isUnreserved) })
        else { return nil }
        self.bucket = bucket
        prefix = parts.dropFirst().joined(separator: "/")
    }

    /// Whether a text is meant as such an address.
    package static func looksLikeOne(_ text: String) -> Bool { text.hasPrefix("s3:") }

    package var description: String { "s3://\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)") }

    /// Returns the full name of an object below the prefix.
    func key(_ name: String) -> String { prefix.isEmpty ? name : "\(prefix)/\(name)" }

    private static func isLowercaseOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}

/// The storage's address and the keys, read from the variables that every S3 client knows.
package struct S3Settings: Sendable {
    package var accessKey: String
    package var secretKey: String
    package var sessionToken: String?
    package var region: String
    /// The address of a service other than Amazon's, without a path; `nil` for Amazon's.
    package var endpoint: String?

    package init(
        accessKey: String,
        secretKey: String,
        sessionToken: String? = nil,
        region: String = "us-east-1",
        endpoint: String? = nil
    ) {
        self.accessKey = accessKey
        self.secretKey = secretKey
        self.sessionToken = sessionToken
        self.region = region
        self.endpoint = endpoint
    }

    /// Reads `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` or `AWS_DEFAULT_REGION`, and
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`.
    ///
    /// - Throws: `S3Failure` that names the missing or unusable variable.
    package init(environment: [String: String]) throws(S3Failure) {
        func value(_ names: String...) -> String? { names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty } }
        guard let accessKey = value("AWS_ACCESS_KEY_ID"), let secretKey = value("AWS_SECRET_ACCESS_KEY") else {
            throw S3Failure(
                .settings,
                "The keys for the storage are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment."
            )
        }
        let endpoint = value("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        if let endpoint {
            let url = URL(string: endpoint)
            guard let url, ["http", "https"].contains(url.scheme), url.host?.isEmpty == false,
                ["", "/"].contains(url.path), url.query == nil, url.user == nil,
                OutgoingFault.isPortUsable(in: endpoint)
            else {
                throw S3Failure(
                    .settings,
                    "AWS_ENDPOINT_URL is \(endpoint), which is not an address such as https://storage.example.org:9000."
                )
            }
        }
        self.init(
            accessKey: accessKey,
            secretKey: secretKey,
            sessionToken: value("AWS_SESSION_TOKEN"),
            region: value("AWS_REGION", "AWS_DEFAULT_REGION") ?? "us-east-1",
            endpoint: endpoint.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        )
    }

    /// Returns the address of a bucket, and the path of its objects: Amazon wants the bucket in the host's name, other
    /// services know it in the path.
    package func place(of bucket: String) -> (origin: String, path: String) {
        if let endpoint { return (endpoint, "/\(bucket)") }
        // The certificate of Amazon's hosts covers one label only.
        if bucket.contains(".") { return ("https://s3.\(region).amazonaws.com", "/\(bucket)") }
        return ("https://\(bucket).s3.\(region).amazonaws.com", "")
    }
}

/// Why the storage did not do what it was asked; the description is one sentence or more for the operator.
package struct S3Failure: Error, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// A setting is missing or unusable.
        case settings
        /// The service could not be reached, or failed, several times.
        case unavailable
        /// The service refuses the keys, or the keys may not do this.
        case denied
        /// There is no such object or bucket.
        case missing
        /// The service refuses the request for another reason.
        case refused
        /// The content is not what was stored.
        case damaged
        /// A local file cannot be read or written.
        case local
    }

    package var code: Code
    package var description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
