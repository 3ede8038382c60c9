package import HTTPTypes
import Synchronization

/// What a request says before its body.
///
/// One value for all requests of a connection that begin with the same bytes, so that what was once read from it need
/// not be read again.
package final class RequestHead: Sendable {
    package struct Content: Sendable {
        package var method: HTTPRequest.Method
        /// As it stood in the request line, still percent-encoded, without the query.
        package var path: String
        /// What followed `?`, still percent-encoded.
        package var query: String?
        package var headers: HTTPFields
        /// The peer's IP address, without port; only for limits that count by address.
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

    /// Read when it is first asked for.
    var reading: HeadReading {
        known.withLock { known in
            if let known { return known }
            let reading = HeadReading(content)
            known = reading
            return reading
        }
    }
}
