package import Records

/// Operators' settings for alerts: limits of their own, and muted rules.
///
/// A running relay uses a change from its next evaluation on.
package struct AlertOverrides: Codable, Hashable, Sendable {
    /// The limits by rule ID, in the units of the rules.
    package var limits: [String: Double] = [:]
    /// When muting ends, by rule ID, in milliseconds since 1970-01-01 UTC.
    package var muted: [String: Int64] = [:]

    package init() {}

    package func isMuted(_ rule: String, at now: Timestamp) -> Bool {
        muted[rule].map { $0 > now.milliseconds } ?? false
    }
}
