/// A position in a change log, opaque to clients, which store it and send it back to get later changes.
///
/// A token belongs to one log (of a zone, or of a user's database) in one epoch. A token of another log, of an unknown
/// epoch, or from beyond the end of the log means "start over". On the wire it is base64 of 33 bytes: kind, then log
/// identity, epoch, position and floor, 8 bytes each, big-endian; when reading backwards 41 bytes, with the top. See
/// Wire.md, "Change tokens".
package struct ChangeToken: Hashable, Sendable {
    package enum Kind: UInt8, Hashable, Sendable {
        case zone = 1
        case database = 2
        /// In the middle of reading a zone's log backwards.
        case reverse = 3

        /// The encoded size in bytes.
        fileprivate var length: Int { self == .reverse ? 41 : 33 }
    }

    package var kind: Kind
    /// Random, drawn when the zone is created, so that a later zone of the same name has a different one.
    package var log: UInt64
    /// Random, drawn when the store is created or restored, and at the first write after each start of the relay.
    package var epoch: UInt64
    /// The number of the last change that the client has received.
    package var position: UInt64
    /// When reading backwards: the position at which to stop, where the reading began from.
    ///
    /// In the middle of an initial listing: the end of the log when the listing began, since tombstones up to there
    /// mean nothing to the client. Otherwise 0.
    package var floor: UInt64
    /// When reading backwards: the end of the log when the reading began.
    ///
    /// Later changes follow once it is done. Otherwise 0.
    package var top: UInt64

    package init(kind: Kind, log: UInt64, epoch: UInt64, position: UInt64, floor: UInt64 = 0, top: UInt64 = 0) {
        self.kind = kind
        self.log = log
        self.epoch = epoch
        self.position = position
        self.floor = floor
        self.top = top
    }

    /// Returns a token for reading backwards from below `position` to above `floor`, beginning here.
    package func reversed(below position: UInt64, above floor: UInt64) -> ChangeToken {
        ChangeToken(kind: .reverse, log: log, epoch: epoch, position: position, floor: floor, top: self.position)
    }

    /// Decodes a token; `nil` if the text is not a valid token.
    package init?(encoded: String) {
        guard let bytes = Base64.decode(encoded), let first = bytes.first, let kind = Kind(rawValue: first),
            bytes.count == kind.length
        else { return nil }
        func number(at start: Int) -> UInt64 { bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        self.init(kind: kind, log: number(at: 1), epoch: number(at: 9), position: number(at: 17), floor: number(at: 25))
        if kind == .reverse { top = number(at: 33) }
    }

    package var encoded: String {
        var text = ""
        withBytes { text = Base64.encode($0) }
        return text
    }

    /// Passes the token's bytes, which are base64-encoded on the wire, to `body`.
    package func withBytes(_ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: kind.length) { bytes in
            bytes[0] = kind.rawValue
            func put(_ number: UInt64, at start: Int) {
                UnsafeMutableRawBufferPointer(bytes).storeBytes(
                    of: number.bigEndian,
                    toByteOffset: start,
                    as: UInt64.self
                )
            }
            put(log, at: 1)
            put(epoch, at: 9)
            put(position, at: 17)
            put(floor, at: 25)
            if kind == .reverse { put(top, at: 33) }
            body(UnsafeBufferPointer(bytes))
        }
    }
}
