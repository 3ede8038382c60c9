import HTTPTypes
import Records

/// What browsers must be told before they show an answer to a page of another origin.
///
/// See Wire.md, "Headers and bodies". The origin itself is named, never `*`, so that pages may also send credentials.
enum CrossOrigin {
    /// Lets a page of `origin`, which was found to be allowed, read the answer.
    static func allow(_ origin: String, _ response: inout APIResponse) {
        response.otherHeaders[.accessControlAllowOrigin] = origin
        response.otherHeaders[.accessControlAllowCredentials] = "true"
        response.otherHeaders[.accessControlExposeHeaders] =
            "X-Apple-Request-UUID, X-Apple-CloudKit-Web-Auth-Token, X-Responding-Instance, Via, Retry-After"
    }

    /// Tells a browser whether a page may call at all; `origin` is `nil` where it may not.
    static func preflight(_ origin: String?) -> APIResponse {
        var response = APIResponse(status: origin == nil ? .forbidden : .noContent)
        response.headers[.vary] = "Origin"
        guard let origin else { return response }
        allow(origin, &response)
        response.headers[.accessControlAllowMethods] = "GET, POST, OPTIONS"
        response.headers[.accessControlAllowHeaders] =
            "Content-Type, X-Apple-CloudKit-Request-KeyID, X-Apple-CloudKit-Request-ISO8601Date, "
            + "X-Apple-CloudKit-Request-SignatureV1, X-Zonecast-Device-ID"
        // Ten minutes: an origin taken away is refused by then at the latest, and by the request itself at once.
        response.headers[.accessControlMaxAge] = "600"
        return response
    }
}
