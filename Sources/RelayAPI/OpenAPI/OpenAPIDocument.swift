import HTTPTypes

/// The description of the relay's wire that it serves at `/openapi.json`.
///
/// `openapi.json` in this folder is the source, and `Deploy/embed` compiles it into the program. `OpenAPITests` compares it
/// with the routes and with a relay's responses.
package enum OpenAPIDocument {
    /// The document as UTF-8.
    package static let json = Array(text.utf8)

    /// The document's address, which is public and readable from any origin.
    static let entry = RouteEntry.page("openapi.json", .ending("openapi.json"), .reading, origins: .any()) { _, _ in
        var response = APIResponse(status: .ok, body: json)
        response.headers[.contentType] = "application/json; charset=UTF-8"
        return response
    }
}
