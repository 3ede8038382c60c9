package import HTTPTypes
import Synchronization

/// The method, path, query and header fields of a request.
///
/// Requests of a connection that begin with the same bytes share one instance, so that the head is parsed only once.
package final class RequestHead: Sendable {
    package struct Content: Sendable {
        package var method: HTTPRequest.Method
        /// The path of the request line, percent-encoded, without the query.
        package var path: String
        /// The part after `?`, percent-encoded.
        package var query: String?
        package var headers: HTTPFields
        /// The peer's IP address without port; used only for limits per address.
        package var remoteAddress: String

        package init(
            method: HTTPRequest.Method,
            path: String,
            query: String?,
            headers: HTTPFields,
            remoteAddress: String
        ) {
            self.method = method
            self.path = path
            self.query = query
            self.headers = headers
            self.remoteAddress = remoteAddress
        }
    }

    package let content: Content
    private let known = Mutex<HeadReading?>(nil)

    package init(_ content: Content) { self.content = content }

    /// The parsed head, created on first access.
    var reading: HeadReading {
        known.withLock { known in
            if let known { return known }
            let reading = HeadReading(content)
            known = reading
            return reading
        }
    }
}
