/// Says whether this process does the scheduled work of its stores, such as removing unused assets.
///
/// Several relays on one database agree on one of them; a relay on a data folder is always the one.
package protocol ScheduledDuty: Sendable {
    /// Returns whether the work that is due now is this process's; may block for some seconds.
    func isOurs() -> Bool

    /// Leaves the work to another process; called when this one stops.
    func resign()
}

/// The duty of the only relay.
package struct SoleDuty: ScheduledDuty {
    package init() {}

    package func isOurs() -> Bool { true }

    package func resign() {}
}
