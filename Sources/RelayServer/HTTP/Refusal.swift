package import Records

/// The reason why the HTTP layer rejected a request before it was routed.
///
/// Nothing more is read from the connection as a request afterwards. See Reliability.md, "Limits" and "Malformed HTTP".
package enum Refusal: Error, Hashable, Sendable {
    /// Invalid framing or an invalid field; the text says which.
    case malformed(String)
    case methodNotServed
    case timeout
    case bodyTooLarge
    case requestLineTooLong
    case encodingNotAccepted
    case expectationNotMet
    case headersTooLarge
    case methodUnknown
    case tooManyBodies
    case tooManyConnections
    case versionUnknown

    var status: Int {
        switch self {
        case .malformed: 400
        case .methodNotServed: 405
        case .timeout: 408
        case .bodyTooLarge: 413
        case .requestLineTooLong: 414
        case .encodingNotAccepted: 415
        case .expectationNotMet: 417
        case .headersTooLarge: 431
        case .methodUnknown: 501
        case .tooManyBodies, .tooManyConnections: 503
        case .versionUnknown: 505
        }
    }

    /// The error code on the wire.
    ///
    /// See Errors.md, "Codes".
    private var code: ErrorCode {
        switch self {
        case .timeout, .tooManyBodies, .tooManyConnections: .tryAgainLater
        default: .badRequest
        }
    }

    /// A sentence for the client's developer.
    ///
    /// Contains nothing that the client sent, and no character that JSON must escape.
    private var reason: String {
        switch self {
        case .malformed(let what): "The request is not valid HTTP: \(what)."
        case .methodNotServed: "This method is not supported. Use GET or POST."
        case .timeout: "The request did not arrive in time."
        case .bodyTooLarge:
            "The request body is larger than the relay accepts. Send fewer records in one request, or a smaller asset."
        case .requestLineTooLong: "The request line is too long. Send arguments in the body."
        case .encodingNotAccepted: "Encoded request bodies are not accepted. Send the body as it is."
        case .expectationNotMet: "The only supported expectation is 100-continue."
        case .headersTooLarge: "The header fields are too large or too many."
        case .methodUnknown: "This method is unknown. Use GET or POST."
        case .tooManyBodies: "Too many requests are arriving at once. Try again in a few seconds."
        case .tooManyConnections: "Too many connections are open. Try again in a few seconds."
        case .versionUnknown: "Only HTTP/1.0 and HTTP/1.1 are supported."
        }
    }

    /// The number of seconds after which a retry may succeed.
    var retryAfter: Int? { status == 503 ? 5 : nil }

    /// Returns the entry for metrics and logs; `requestID` is that of the response.
    func refusedRequest(as requestID: String) -> RefusedRequest {
        RefusedRequest(id: requestID, status: status, error: code, reason: reason)
    }

    /// Returns the response's body in the wire's error format.
    ///
    /// See Errors.md, "Error dictionary".
    func body(requestID: String) -> String {
        let retry = retryAfter.map { ",\"retryAfter\":\($0)" } ?? ""
        // The wire has no specific code for a request that must be split.
        let fine = self == .bodyTooLarge ? ",\"ckErrorCode\":\"LIMIT_EXCEEDED\"" : ""
        let code = code.rawValue
        return "{\"uuid\":\"\(requestID)\",\"serverErrorCode\":\"\(code)\"\(fine),\"reason\":\"\(reason)\"\(retry)}"
    }
}

/// A request that was rejected before it was routed, as reported to metrics and logs.
package struct RefusedRequest: Sendable {
    /// The response's `uuid`.
    package var id: String
    package var status: Int
    package var error: ErrorCode
    /// The response's text; contains nothing that the client sent.
    package var reason: String

    package init(id: String, status: Int, error: ErrorCode, reason: String) {
        self.id = id
        self.status = status
        self.error = error
        self.reason = reason
    }
}

/// Identifies a response of the HTTP layer, so that a client's report can be matched with the relay's log.
enum RequestID {
    /// Returns a random UUID (RFC 9562, version 4) in lower case.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        var bytes = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array("0123456789abcdef")
        var text = ""
        for (index, byte) in bytes.enumerated() {
            if [4, 6, 8, 10].contains(index) { text.append("-") }
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 0x0F)])
        }
        return text
    }
}
