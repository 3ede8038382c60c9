/// A position in a database's change log, opaque to clients.
package enum DatabaseToken: Hashable, Sendable {
    /// One position: of a private database, and of shared databases until November 2026.
    case scalar(ChangeToken)
    /// A position for each owner: of a shared database.
    case vector(VectorToken)

    /// Decodes a token; `nil` if the text is not a valid token of a database.
    package init?(encoded: String) {
        if let token = ChangeToken(encoded: encoded), token.kind == .database {
            self = .scalar(token)
        } else if let token = VectorToken(encoded: encoded) {
            self = .vector(token)
        } else {
            return nil
        }
    }

    package var encoded: String {
        switch self {
        case .scalar(let token): token.encoded
        case .vector(let token): token.encoded
        }
    }

    /// Returns the number of the owner's last change that the holder has received; `nil` if the holder knows none of
    /// the owner's zones.
    package func position(of owner: UserID) -> UInt64? {
        switch self {
        case .scalar(let token): return token.position
        case .vector(let token):
            let fingerprint = VectorToken.fingerprint(of: owner)
            return token.places.first { $0.owner == fingerprint }?.position
        }
    }
}

/// A position in a user's shared database: one in the change log of each owner who shares with the user.
///
/// Epochs and change numbers belong to an owner; numbers of different owners cannot be compared. An owner is absent if
/// the holder knows none of their zones. On the wire it is base64 of 9 bytes, kind 4 and the identity of the log, and of
/// 24 bytes for each owner in ascending order: fingerprint, epoch and position, 8 bytes each, big-endian. See Wire.md,
/// "Change tokens".
package struct VectorToken: Hashable, Sendable {
    package struct Place: Hashable, Sendable {
        /// See `fingerprint(of:)`.
        package var owner: UInt64
        package var epoch: UInt64
        /// The number of the owner's last change that the holder has received.
        package var position: UInt64

        package init(owner: UInt64, epoch: UInt64, position: UInt64) {
            self.owner = owner
            self.epoch = epoch
            self.position = position
        }
    }

    package let log: UInt64
    /// Ascending by owner.
    package let places: [Place]

    private static let kind: UInt8 = 4
    private static let headLength = 9
    private static let placeLength = 24

    /// Creates a token; `places` must be ascending by owner.
    package init(log: UInt64, places: [Place]) {
        self.log = log
        self.places = places
    }

    /// Decodes a token; `nil` if the text is not a valid token.
    package init?(encoded: String) {
        guard let bytes = Base64.decode(encoded), bytes.first == Self.kind, bytes.count >= Self.headLength,
            (bytes.count - Self.headLength).isMultiple(of: Self.placeLength)
        else { return nil }
        func number(at start: Int) -> UInt64 { bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        log = number(at: 1)
        places = stride(from: Self.headLength, to: bytes.count, by: Self.placeLength).map {
            Place(owner: number(at: $0), epoch: number(at: $0 + 8), position: number(at: $0 + 16))
        }
        guard zip(places, places.dropFirst()).allSatisfy({ $0.owner < $1.owner }) else { return nil }
    }

    package var encoded: String {
        var bytes = [Self.kind]
        bytes.reserveCapacity(Self.headLength + places.count * Self.placeLength)
        func put(_ number: UInt64) { withUnsafeBytes(of: number.bigEndian) { bytes += $0 } }
        put(log)
        for place in places {
            put(place.owner)
            put(place.epoch)
            put(place.position)
        }
        return Base64.encode(bytes)
    }

    /// Returns the number that stands for an owner in tokens.
    package static func fingerprint(of owner: UserID) -> UInt64 { Fingerprint(of: owner.recordName).sum }
}
