import Records

/// Why the gate itself turned a request away, before anyone behind it saw it.
///
/// See Reliability.md, "Limits" and "Malformed HTTP".
///
/// After any of these nothing more is read from the connection as a request.
enum Refusal: Error, Hashable, Sendable {
    /// Broken framing or a broken field; the text says which.
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

    /// The wire's own code for it.
    ///
    /// See Errors.md, "Codes".
    private var code: ErrorCode {
        switch self {
        case .timeout, .tooManyBodies, .tooManyConnections: .tryAgainLater
        default: .badRequest
        }
    }

    /// A sentence for whoever reads the answer.
    ///
    /// Holds nothing that the client sent, and no character that JSON escapes.
    private var reason: String {
        switch self {
        case .malformed(let what): "The request is not valid HTTP: \(what)."
        case .methodNotServed: "This method is not served here. Use GET or POST."
        case .timeout: "The request did not arrive in time."
        case .bodyTooLarge:
            "The request body is larger than the relay accepts. Send fewer records in one request, or a smaller asset."
        case .requestLineTooLong: "The request line is too long. Send arguments in the body."
        case .encodingNotAccepted: "Encoded request bodies are not accepted. Send the body as it is."
        case .expectationNotMet: "The only expectation that can be met is 100-continue."
        case .headersTooLarge: "The header fields are too large or too many."
        case .methodUnknown: "This method is not known. Use GET or POST."
        case .tooManyBodies: "Too many requests are arriving at once. Try again in a few seconds."
        case .tooManyConnections: "Too many connections are open. Try again in a few seconds."
        case .versionUnknown: "Only HTTP/1.0 and HTTP/1.1 are spoken here."
        }
    }

    /// Seconds after which another try may succeed.
    var retryAfter: Int? { status == 503 ? 5 : nil }

    /// For counts and logs, of an answer with this identifier.
    func noted(as requestID: String) -> RefusedRequest {
        RefusedRequest(id: requestID, status: status, error: code, reason: reason)
    }

    /// The answer's body, in the wire's own error form.
    ///
    /// See Errors.md, "Error dictionary".
    func body(requestID: String) -> String {
        let retry = retryAfter.map { ",\"retryAfter\":\($0)" } ?? ""
        // The wire has no code of its own for a request that is to be sent in parts.
        let fine = self == .bodyTooLarge ? ",\"ckErrorCode\":\"LIMIT_EXCEEDED\"" : ""
        let code = code.rawValue
        return "{\"uuid\":\"\(requestID)\",\"serverErrorCode\":\"\(code)\"\(fine),\"reason\":\"\(reason)\"\(retry)}"
    }
}
