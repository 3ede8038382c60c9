import HTTPTypes
import Records
import RelayCore
import Wire

/// Completes responses: errors in wire format and common header fields.
extension Relay {
    static func relayError(for error: any Error) -> RelayError {
        switch error {
        case let error as RelayError: return error
        case let error as JSONError: return .badRequest(error.description)
        case let error as CredentialRefusal: return error.relayError(redirectURL: nil)
        default: return RelayError(.internalError, "The request failed in the relay; report its uuid to the operator.")
        }
    }

    /// Returns the response to a failed request; reports status 500 and above to the operator through `onFault`.
    func failure(_ cause: any Error, id: RequestIdentifier) -> APIResponse {
        let error = Self.relayError(for: cause)
        let status = error.status ?? error.code.status
        if status >= 500 { onFault(id.text, cause) }
        let answer = EndpointAnswer {
            $0.member("uuid", id.text)
            $0.members(of: error)
        }
        var response = APIResponse(status: .init(code: status), text: answer.body)
        response.errorCode = error.code
        if let wait = error.retryAfter {
            // The header takes whole seconds; at least one.
            response.headers[.retryAfter] = String(max(1, Int(wait.inSeconds.rounded(.up))))
        }
        return response
    }

    func decorate(
        _ response: inout APIResponse,
        _ request: APIRequest,
        _ authentication: Authentication?,
        id: RequestIdentifier
    ) {
        response.usual = UsualFields(id: id, webToken: authentication?.freshWebToken)
        response.caller = authentication?.caller
        if request.method == .get { response.otherHeaders[.cacheControl] = "no-store" }
        if let origin = authentication?.origin {
            response.otherHeaders[.vary] = "Origin"
            CrossOrigin.allow(origin, &response)
        } else if authentication == nil, let origin = request.headers[.origin] {
            // Unauthenticated pages must be able to read the redirect URL of the sign-in page.
            response.otherHeaders[.vary] = "Origin"
            guard let home = Route.home(ofPath: request.path),
                authenticator.allowsOrigin(origin, of: request, in: home)
            else { return }
            CrossOrigin.allow(origin, &response)
        }
    }

    static let json = HTTPField(name: .contentType, value: "application/json; charset=UTF-8")

    /// Returns the response to OPTIONS without an origin: the methods of a path, or of the whole server for `*`.
    static func methods(_ allowed: String, id: RequestIdentifier) -> APIResponse {
        var response = APIResponse(status: .noContent)
        response.headers[.allow] = allowed
        response.headers[.requestUUID] = id.text
        return response
    }

    /// Answers OPTIONS: as a CORS preflight if the request has an origin, otherwise with the allowed methods.
    ///
    /// See Wire.md, "Headers and bodies", and RFC 9110, 9.3.7.
    func preflight(_ request: APIRequest, _ route: Route, id: RequestIdentifier) -> APIResponse {
        guard request.headers[.origin] != nil else { return Self.methods(route.allowed, id: id) }
        let origin = request.headers[.origin].flatMap {
            authenticator.allowsOrigin($0, of: request, in: route.home) ? $0 : nil
        }
        var response = CrossOrigin.preflight(origin)
        response.headers[.requestUUID] = id.text
        return response
    }
}

extension APIResponse {
    /// Creates a response from an endpoint's answer.
    init(_ answer: EndpointAnswer) {
        self.init(status: answer.errorCode.map { .init(code: $0.status) } ?? .ok, text: answer.body)
        errorCode = answer.errorCode
    }
}

extension RelayError {
    /// Returns an error with status 405.
    ///
    /// The caller must set the header `Allow`: RFC 9110, 15.5.6.
    static func methodNotAllowed(_ reason: String) -> RelayError { RelayError(.badRequest, reason, status: 405) }
}
