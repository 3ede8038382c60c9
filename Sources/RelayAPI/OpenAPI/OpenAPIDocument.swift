/// The description of the relay's wire that it serves at `/openapi.json`.
///
/// `openapi.json` in this folder is the source, and `Deploy/embed` compiles it into the program. `OpenAPITests` compares it
/// with the routes and with a relay's responses.
package enum OpenAPIDocument {
    /// The document as UTF-8.
    package static let json = Array(text.utf8)

    /// Returns whether a path asks for the document.
    ///
    /// A proxy may put a prefix in front.
    static func isRequested(by path: String) -> Bool {
        path.hasSuffix("/openapi.json") && !path.contains("/database/1/") && !path.contains("/device/1/")
    }
}
