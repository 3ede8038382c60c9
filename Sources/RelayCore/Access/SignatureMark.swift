package import Records

/// What is kept of a write's server-to-server signature, so that whoever has recorded the request cannot send it again.
///
/// See Reliability.md, "Tokens".
package struct SignatureMark: Hashable, Sendable {
    /// Tells the signing from all others of its date.
    package var fingerprint: UInt128
    /// The date that is signed with the rest.
    package var signed: Timestamp
    /// What was signed before is refused for its age, and need not be kept.
    package var oldest: Timestamp

    package init(fingerprint: UInt128, signed: Timestamp, oldest: Timestamp) {
        self.fingerprint = fingerprint
        self.signed = signed
        self.oldest = oldest
    }
}
