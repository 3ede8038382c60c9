extension Zonecast {
    /// The version of the program and of its packages.
    ///
    /// This line is the only place that states it: `Deploy/version` reads it, and `Deploy/release` compares it with
    /// CHANGELOG.md and makes the tag from it.
    static let version = "0.1.0"
}
