/// Takes a request's body while it arrives, where it is too large to be held.
///
/// The server hands over one piece after the other, and then the request, which carries this; `Relay` finishes it.
package protocol BodyIntake: Sendable {
    /// Takes the next piece.
    ///
    /// Never blocks. Where more is waiting to be written than should, `whenReady` is called once it may go on.
    func take(_ piece: [UInt8], whenReady: @escaping @Sendable () -> Void) -> IntakeVerdict
}

/// How a body goes on.
package enum IntakeVerdict: Hashable, Sendable {
    case goOn
    /// Nothing more until `whenReady` is called.
    case wait
    /// It is longer than it may be: 413, and close.
    case tooLarge
}

/// A file, or a part of one, as an answer's body.
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

/// A body made of bytes and files one after the other, each asked for when the one before has gone.
package protocol BodyParts: AnyObject, Sendable {
    /// Bytes of all of them together.
    var length: Int64 { get }
    /// The next; `nil` after the last. Called on a connection's loop, so it is to be quick.
    ///
    /// Where it throws, or they come to another length than they said, the connection is cut: nobody takes a part for the
    /// whole.
    func next() throws -> BodyPart?
}

package enum BodyPart: Sendable {
    case bytes([UInt8])
    case file(FileBody)
}
