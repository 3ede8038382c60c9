package import Records
package import RelayCore

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
/// Has no clock. A rule must fire in two checks in a row before a message, and be quiet for five minutes before
/// it counts as resolved, so that a value near its limit sends one message.
///
/// With several relays, one of them sends the messages of a rule that is about all of them: what was sent is in `shared`.
/// While that cannot be reached, each relay sends its own, since a message too many is better than none.
package struct AlertWatch: Sendable {
    private let own = AlertIncidentsInMemory()
    private let shared: (any AlertIncidents)?
    private let times: AlertTimes
    /// The rules that fired in the latest check and not before it.
    private var suspects: Set<String> = []
    /// Whether `shared` has answered in this check: one that does not would delay each rule by a time-out.
    private var isReachable = true

    /// - Parameters:
    ///   - shared: The incidents of all relays on the same data; `nil` for the only one.
    ///   - interval: The time between two checks.
    package init(shared: (any AlertIncidents)? = nil, interval: Duration = .seconds(60)) {
        self.shared = shared
        var times = AlertTimes()
        // A relay that checks seldom must not be taken for one that no longer sees the condition.
        if shared != nil { times.quiet = max(times.quiet, interval * 3) }
        self.times = times
    }

    /// Takes one reading of all rules and returns the messages to send now.
    ///
    /// May block while `shared` is asked.
    package mutating func look(at readings: [AlertReading], now: Timestamp) -> [AlertMessage] {
        isReachable = true
        return readings.compactMap { reading in
            let id = reading.rule.id
            guard reading.mutedUntil == nil else {
                suspects.remove(id)
                own.forget(id)
                ask(reading.rule) { (shared) throws(DirectoryError) in try shared.forget(id) }
                return nil
            }
            return reading.isFiring ? conditionFired(reading, now) : conditionCleared(reading, now)
        }
    }

    private mutating func conditionFired(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        let id = reading.rule.id
        guard suspects.remove(id) != nil || own.contains(id) else {
            suspects.insert(id)
            return nil
        }
        var news = own.fires(id, at: now, times)
        let times = times
        if let theirs = ask(reading.rule, { (shared) throws(DirectoryError) in try shared.fires(id, at: now, times) }) {
            // This relay may have told it while the others could not be asked.
            news = theirs == .begins && news == nil ? nil : theirs
        }
        switch news {
        case .begins: return message(.firing, reading, now)
        case .lasts: return message(.reminder, reading, now)
        case nil: return nil
        }
    }

    private mutating func conditionCleared(_ reading: AlertReading, _ now: Timestamp) -> AlertMessage? {
        // An unknown value neither fires nor resolves.
        guard reading.value != nil else { return nil }
        let (id, times) = (reading.rule.id, times)
        suspects.remove(id)
        let isOverHere = own.clears(id, at: now, times)
        let isOver = ask(reading.rule) { (shared) throws(DirectoryError) in try shared.clears(id, at: now, times) }
        return isOver ?? isOverHere ? message(.resolved, reading, now) : nil
    }

    /// Returns `nil` for a rule about this relay alone, and if the shared incidents cannot be reached.
    @discardableResult
    private mutating func ask<Value>(
        _ rule: AlertRule,
        _ body: (any AlertIncidents) throws(DirectoryError) -> Value
    ) -> Value? {
        guard let shared, !rule.isOfNode, isReachable else { return nil }
        do throws(DirectoryError) {
            return try body(shared)
        } catch {
            isReachable = false
            return nil
        }
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
