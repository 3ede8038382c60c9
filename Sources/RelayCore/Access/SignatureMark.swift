package import Records

/// A record of a write's server-to-server signature, stored to prevent replay of the request.
///
/// See Reliability.md, "Tokens".
package struct SignatureMark: Hashable, Sendable {
    /// Identifies the signature among all those with the same date.
    package var fingerprint: UInt128
    /// The date that is part of the signed message.
    package var signed: Timestamp
    /// Signatures older than this date are rejected as expired and need not be stored.
    package var oldest: Timestamp

    package init(fingerprint: UInt128, signed: Timestamp, oldest: Timestamp) {
        self.fingerprint = fingerprint
        self.signed = signed
        self.oldest = oldest
    }
}
