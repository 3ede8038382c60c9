package import Records
import Synchronization

/// The conditions about which operators were told, and when.
///
/// Several relays on the same data share them, so that one condition sends one message whichever of them notices it.
package protocol AlertIncidents: Sendable {
    /// Notes that the condition of a rule holds; returns the message that the caller must send, if any.
    func fires(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> AlertNews?

    /// Notes that the condition does not hold here; returns whether the caller must say that it is over.
    func clears(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> Bool

    /// Ends an incident without a message.
    func forget(_ rule: String) throws(DirectoryError)
}

/// What is new about a condition that holds.
package enum AlertNews: Hashable, Sendable {
    case begins
    /// It still holds after the time for reminders.
    case lasts
}

/// The times of alerts.
package struct AlertTimes: Hashable, Sendable {
    /// The time between two messages about a condition that goes on.
    package var reminder = Duration.seconds(86_400)
    /// How long a condition must not hold before it counts as over, so that a value near its limit sends one message.
    package var quiet = Duration.seconds(300)

    package init() {}
}

/// The incidents that one relay knows.
package final class AlertIncidentsInMemory: AlertIncidents {
    private struct Incident {
        var reported: Timestamp
        var lastSeen: Timestamp

        /// Moves times that lie in the future back to now: the clock was set back.
        mutating func clockShows(_ now: Timestamp) {
            lastSeen = min(lastSeen, now)
            reported = min(reported, now)
        }
    }

    private let incidents = Mutex<[String: Incident]>([:])

    package init() {}

    package func fires(_ rule: String, at now: Timestamp, _ times: AlertTimes) -> AlertNews? {
        incidents.withLock { incidents in
            guard var incident = incidents[rule] else {
                incidents[rule] = Incident(reported: now, lastSeen: now)
                return .begins
            }
            incident.clockShows(now)
            let isDue = now >= incident.reported + times.reminder
            if isDue { incident.reported = now }
            incident.lastSeen = now
            incidents[rule] = incident
            return isDue ? .lasts : nil
        }
    }

    package func clears(_ rule: String, at now: Timestamp, _ times: AlertTimes) -> Bool {
        incidents.withLock { incidents in
            incidents[rule]?.clockShows(now)
            guard let incident = incidents[rule], now >= incident.lastSeen + times.quiet else { return false }
            incidents[rule] = nil
            return true
        }
    }

    package func contains(_ rule: String) -> Bool { incidents.withLock { $0[rule] != nil } }

    package func forget(_ rule: String) { incidents.withLock { $0[rule] = nil } }
}
