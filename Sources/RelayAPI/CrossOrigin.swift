import HTTPTypes
import Records

/// The CORS header fields.
///
/// See Wire.md, "Headers and bodies". The header names the origin, never `*`, so that pages may also send credentials.
enum CrossOrigin {
    /// Lets a page of `origin`, which the caller has checked, read the response.
    static func allow(_ origin: String, _ response: inout APIResponse) {
        response.otherHeaders[.accessControlAllowOrigin] = origin
        response.otherHeaders[.accessControlAllowCredentials] = "true"
        response.otherHeaders[.accessControlExposeHeaders] =
            "X-Apple-Request-UUID, X-Apple-CloudKit-Web-Auth-Token, X-Responding-Instance, Via, Retry-After"
    }

    /// Returns the response to a preflight request; pass `nil` as `origin` if the origin is not allowed.
    static func preflight(_ origin: String?) -> APIResponse {
        var response = APIResponse(status: origin == nil ? .forbidden : .noContent)
        response.headers[.vary] = "Origin"
        guard let origin else { return response }
        allow(origin, &response)
        response.headers[.accessControlAllowMethods] = "GET, POST, OPTIONS"
        response.headers[.accessControlAllowHeaders] =
            "Content-Type, X-Apple-CloudKit-Request-KeyID, X-Apple-CloudKit-Request-ISO8601Date, "
            + "X-Apple-CloudKit-Request-SignatureV1, X-Zonecast-Device-ID"
        // Ten minutes. If an origin is removed, browsers notice after that time, and the request itself is refused at
        // once.
        response.headers[.accessControlMaxAge] = "600"
        return response
    }
}
