/// A place in a change log: opaque to clients, who keep it and hand it back to get what came after.
///
/// A token speaks of one log (a zone's, or a user's database one level up) in one epoch. Another log's token, that of an
/// epoch which the store never had, or one from beyond the log's end means "start over". On the wire it is base64 of 33
/// bytes: kind, then log identity, epoch, position and floor, each 8 bytes big-endian; going backwards 41, with the top.
/// See Wire.md, "Change tokens".
package struct ChangeToken: Hashable, Sendable {
    package enum Kind: UInt8, Hashable, Sendable {
        case zone = 1
        case database = 2
        /// In the middle of reading a zone's log backwards.
        case reverse = 3

        /// In bytes.
        fileprivate var length: Int { self == .reverse ? 41 : 33 }
    }

    package var kind: Kind
    /// Drawn when the zone is made, so that a zone of the same name made later has another.
    package var log: UInt64
    /// Drawn when the store is made or restored from a backup, and for every life of a relay that writes to it.
    package var epoch: UInt64
    /// The number of the last change that the holder has seen.
    package var position: UInt64
    /// Going backwards: where to stop, the position that the reading began from.
    ///
    /// In the middle of a listing from nothing: where the log ended when it began, since tombstones up to there mean
    /// nothing to its reader. Otherwise 0.
    package var floor: UInt64
    /// Going backwards: where the log ended when the reading began.
    ///
    /// What came since follows once it is done. Otherwise 0.
    package var top: UInt64

    package init(kind: Kind, log: UInt64, epoch: UInt64, position: UInt64, floor: UInt64 = 0, top: UInt64 = 0) {
        self.kind = kind
        self.log = log
        self.epoch = epoch
        self.position = position
        self.floor = floor
        self.top = top
    }

    /// To go on backwards from just below `position` down to just above `floor`, having begun here.
    package func reversed(below position: UInt64, above floor: UInt64) -> ChangeToken {
        ChangeToken(kind: .reverse, log: log, epoch: epoch, position: position, floor: floor, top: self.position)
    }

    /// `nil` for anything that no relay ever wrote.
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

    /// Lends the bytes that go on the wire in base64.
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
