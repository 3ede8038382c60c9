package import Records

/// What an operator is told, once.
package struct AlertMessage: Hashable, Sendable {
    package enum State: String, Sendable {
        case firing
        /// Still firing a day later.
        case reminder
        case resolved
        /// Somebody wants to know whether messages arrive.
        case test
    }

    package var state: State
    package var rule: String
    package var name: String
    /// All that has to be said, for a person.
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

/// Turns looks at the rules into messages: one when a rule begins to fire, one a day while it goes on, one when all is
/// well again.
///
/// Has no clock of its own. A rule has to fire in two looks in a row to be told, and to be quiet for some minutes to be told
/// as well again: what comes and goes is one message.
package struct AlertWatch: Sendable {
    private struct Trouble {
        /// `nil` while it has been seen but once.
        var told: Timestamp?
        var lastSeen: Timestamp

        /// Where the clock has been put back, nobody waits for it to come there again.
        mutating func clockShows(_ now: Timestamp) {
            lastSeen = min(lastSeen, now)
            told = told.map { min($0, now) }
        }
    }

    private static let reminder = Duration.seconds(86_400)
    private static let quiet = Duration.seconds(300)

    private var troubles: [String: Trouble] = [:]

    package init() {}

    /// Takes one look at all rules; gives what is to be told now.
    package mutating func look(at readings: [AlertReading], now: Timestamp) -> [AlertMessage] {
        readings.compactMap { reading in
            let id = reading.rule.id
            troubles[id]?.clockShows(now)
            guard reading.mutedUntil == nil else {
                troubles[id] = nil
                return nil
            }
            return reading.isFiring ? fires(reading, now) : isWell(reading, now)
        }
    }

    private mutating func fires(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        let id = reading.rule.id
        guard var trouble = troubles[id] else {
            troubles[id] = Trouble(told: nil, lastSeen: now)
            return nil
        }
        trouble.lastSeen = now
        defer { troubles[id] = trouble }
        guard let told = trouble.told else {
            trouble.told = now
            return message(.firing, reading, now)
        }
        guard now >= told + Self.reminder else { return nil }
        trouble.told = now
        return message(.reminder, reading, now)
    }

    private mutating func isWell(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        // What nothing is known of is neither.
        guard let trouble = troubles[reading.rule.id], reading.value != nil else { return nil }
        guard trouble.told != nil else {
            troubles[reading.rule.id] = nil
            return nil
        }
        guard now >= trouble.lastSeen + Self.quiet else { return nil }
        troubles[reading.rule.id] = nil
        return message(.resolved, reading, now)
    }

    private func message(_ state: AlertMessage.State, _ reading: AlertReading, _ now: Timestamp) -> AlertMessage {
        let rule = reading.rule
        let value = reading.value.map(rule.shown) ?? "unknown"
        let limit = rule.shown(reading.limit)
        let text =
            state == .resolved
            ? "\(rule.name): well again, \(value)."
            : "\(rule.name): \(value), \(rule.isAboveBad ? "over" : "under") \(limit). \(rule.meaning) \(rule.action)"
        return AlertMessage(state: state, rule: rule.id, name: rule.name, text: text, at: now)
    }
}
