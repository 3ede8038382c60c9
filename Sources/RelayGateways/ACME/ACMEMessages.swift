/// A request to an ACME server.
package struct ACMERequest: Hashable, Sendable {
    package enum Method: Hashable, Sendable {
        case get
        case head
        /// With a signed body.
        case post([UInt8])
    }

    package var method: Method
    package var url: String
}

/// A response of an ACME server.
package struct ACMEResponse: Hashable, Sendable {
    package var status: Int
    /// A nonce for the next request.
    package var nonce: String?
    /// The URL of the account or order that the request created.
    package var location: String?
    /// How long the server asks to wait.
    package var retryAfter: Duration?
    package var body: [UInt8]

    package init(
        status: Int,
        nonce: String? = nil,
        location: String? = nil,
        retryAfter: Duration? = nil,
        body: [UInt8] = []
    ) {
        self.status = status
        self.nonce = nonce
        self.location = location
        self.retryAfter = retryAfter
        self.body = body
    }
}

/// A file that the domain's web server must serve, so that the ACME server believes that the domain is ours.
///
/// See RFC 8555, section 8.3.
package struct HTTPChallenge: Hashable, Sendable {
    /// The last part of the path, after `/.well-known/acme-challenge/`.
    package var token: String
    /// The file's content.
    package var content: String
}

/// The objects of RFC 8555, section 7.1, with the members that the client uses.
package enum ACMEMessage {
    struct Directory: Decodable {
        var newNonce: String
        var newAccount: String
        var newOrder: String
    }

    struct NewAccount: Encodable {
        var termsOfServiceAgreed = true
        var contact: [String]
    }

    struct NewOrder: Encodable {
        var identifiers: [Identifier]
    }

    package struct Identifier: Codable {
        var type = "dns"
        package var value: String
    }

    enum Status: String, Decodable {
        case pending, ready, processing, valid, invalid, deactivated, expired, revoked
    }

    struct Order: Decodable {
        var status: Status
        var authorizations: [String]
        var finalize: String
        var certificate: String?
        var error: Problem?
    }

    struct Authorization: Decodable {
        var status: Status
        var challenges: [Challenge]
    }

    struct Challenge: Decodable {
        var type: String
        var url: String
        var token: String?
        var error: Problem?
    }

    struct Empty: Encodable {}

    struct Finalize: Encodable {
        var csr: String
    }

    /// A problem document (RFC 7807).
    struct Problem: Decodable {
        var type: String?
        var detail: String?
        var subproblems: [Problem]?

        /// The part of the type after `urn:ietf:params:acme:error:`; `nil` for another type.
        var code: String? {
            let prefix = "urn:ietf:params:acme:error:"
            return type.flatMap { $0.hasPrefix(prefix) ? String($0.dropFirst(prefix.count)) : nil }
        }
    }
}
