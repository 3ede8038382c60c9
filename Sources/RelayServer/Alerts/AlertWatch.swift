package import Records

/// One message to the operator.
package struct AlertMessage: Hashable, Sendable {
    package enum State: String, Sendable {
        case firing
        /// Still firing after a day.
        case reminder
        case resolved
        /// Sent by `zonecast alert test`.
        case test
    }

    package var state: State
    package var rule: String
    package var name: String
    /// The complete message for a person.
    package var text: String
    package var at: Timestamp

    package init(state: State, rule: String, name: String, text: String, at: Timestamp) {
        self.state = state
        self.rule = rule
        self.name = name
        self.text = text
        self.at = at
    }

    package static func test(at now: Timestamp) -> AlertMessage {
        AlertMessage(
            state: .test,
            rule: "test",
            name: "Test",
            text: "A test: alerts of this relay arrive here.",
            at: now
        )
    }
}

/// Turns readings of the rules into messages: one when a rule begins to fire, one a day while it goes on, and one when it
/// ends.
///
/// A value without a clock. A rule must fire in two checks in a row before a message, and be quiet for five minutes before
/// it counts as resolved, so that a value near its limit sends one message.
package struct AlertWatch: Sendable {
    private struct Incident {
        /// When the last message was sent; `nil` after the first check.
        var reported: Timestamp?
        var lastSeen: Timestamp

        /// Moves times that lie in the future back to now: the clock was set back.
        mutating func clockShows(_ now: Timestamp) {
            lastSeen = min(lastSeen, now)
            reported = reported.map { min($0, now) }
        }
    }

    private static let reminder = Duration.seconds(86_400)
    private static let quiet = Duration.seconds(300)

    private var incidents: [String: Incident] = [:]

    package init() {}

    /// Takes one reading of all rules and returns the messages to send now.
    package mutating func look(at readings: [AlertReading], now: Timestamp) -> [AlertMessage] {
        readings.compactMap { reading in
            let id = reading.rule.id
            incidents[id]?.clockShows(now)
            guard reading.mutedUntil == nil else {
                incidents[id] = nil
                return nil
            }
            return reading.isFiring ? conditionFired(reading, now) : conditionCleared(reading, now)
        }
    }

    private mutating func conditionFired(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        let id = reading.rule.id
        guard var incident = incidents[id] else {
            incidents[id] = Incident(reported: nil, lastSeen: now)
            return nil
        }
        incident.lastSeen = now
        defer { incidents[id] = incident }
        guard let reported = incident.reported else {
            incident.reported = now
            return message(.firing, reading, now)
        }
        guard now >= reported + Self.reminder else { return nil }
        incident.reported = now
        return message(.reminder, reading, now)
    }

    private mutating func conditionCleared(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        // An unknown value neither fires nor resolves.
        guard let incident = incidents[reading.rule.id], reading.value != nil else { return nil }
        guard incident.reported != nil else {
            incidents[reading.rule.id] = nil
            return nil
        }
        guard now >= incident.lastSeen + Self.quiet else { return nil }
        incidents[reading.rule.id] = nil
        return message(.resolved, reading, now)
    }

    private func message(_ state: AlertMessage.State, _ reading: AlertReading, _ now: Timestamp) -> AlertMessage {
        let rule = reading.rule
        let value = reading.value.map(rule.shown) ?? "unknown"
        let limit = rule.shown(reading.limit)
        let text =
            state == .resolved
            ? "\(rule.name): back to normal, \(value)."
            : "\(rule.name): \(value), \(rule.isAboveBad ? "over" : "under") \(limit). \(rule.meaning) \(rule.action)"
        return AlertMessage(state: state, rule: rule.id, name: rule.name, text: text, at: now)
    }
}
