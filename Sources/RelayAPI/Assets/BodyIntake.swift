/// Receives a request body as it arrives, for bodies that are too large to buffer.
///
/// The server passes the body piece by piece and then the request, which contains the intake; `Relay` completes it.
package protocol BodyIntake: AnyObject, Sendable {
    /// Receives the next piece.
    ///
    /// Never blocks. If too many bytes wait to be written, the result is `wait`, and `whenReady` is called once the
    /// server may continue.
    func take(_ piece: [UInt8], whenReady: @escaping @Sendable () -> Void) -> IntakeVerdict
}

/// How the server continues with a body.
package enum IntakeVerdict: Hashable, Sendable {
    case proceed
    /// Pass nothing more until `whenReady` is called.
    case wait
    /// The body exceeds the limit: respond with 413 and close.
    case tooLarge
}

/// A response body that is a file or a part of one.
package struct FileBody: Hashable, Sendable {
    package var path: String
    package var offset: Int64
    package var length: Int64

    package init(path: String, offset: Int64, length: Int64) {
        self.path = path
        self.offset = offset
        self.length = length
    }
}

/// A response body made of consecutive bytes and files, each requested after the previous one was sent.
package protocol BodyParts: AnyObject, Sendable {
    /// The total length in bytes.
    var length: Int64 { get }
    /// Returns the next part; `nil` after the last, and `later` while it is not there yet.
    ///
    /// Called on an event loop, so it must be fast. If it throws, or the total length differs from `length`, the server
    /// closes the connection so that the client detects an incomplete body.
    func next() throws -> BodyPart?
    /// Calls `body` once, from any thread, when `next` no longer returns `later`.
    func whenReady(_ body: @escaping @Sendable () -> Void)
}

extension BodyParts {
    package func whenReady(_ body: @escaping @Sendable () -> Void) { body() }
}

package enum BodyPart: Sendable {
    case bytes([UInt8])
    case file(FileBody)
    case later
}
