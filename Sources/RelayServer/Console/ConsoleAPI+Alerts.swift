import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

/// What an operator should be told of, judged by the relay's own numbers: now, and minute by minute in the last hour.
extension ConsoleAPI {
    static let alerts: [ConsoleRoute] = [
        .get("alerts") { AlertsAnswer($0) },
        .post("alerts/mute") { call in
            let change = try call.body(AlertChange.self)
            try call.changeAlert(change, "alert.mute") { book in
                let until = call.parts.time.now() + .seconds(3600 * min(max(change.hours ?? 0, 0), 24 * 365))
                book.muted[change.rule] = (change.hours ?? 0) > 0 ? until.milliseconds : nil
            }
            return Done()
        },
        .post("alerts/limit") { call in
            let change = try call.body(AlertChange.self)
            if let limit = change.limit {
                guard limit.isFinite, limit >= 0 else { throw ConsoleRefusal("A limit is a number, 0 or more.") }
            }
            try call.changeAlert(change, "alert.limit") { $0.limits[change.rule] = change.limit }
            return Done()
        },
        .post("alerts/test") { call in
            guard let send = call.parts.sendAlert else {
                throw ConsoleRefusal("Nobody is set up to be told: alerts.webhook, alerts.ntfy or alerts.mail-to.")
            }
            if let fault = await send(.test(at: call.parts.time.now())) {
                throw ConsoleRefusal("The message did not arrive: \(fault)", status: 502)
            }
            try call.note("alert.test", "alerts")
            return Done()
        },
    ]

    fileprivate struct AlertChange: Decodable {
        var rule: String
        /// How long to be silent; 0 ends it.
        var hours: Int?
        /// `nil`: the rule's own.
        var limit: Double?
    }

    fileprivate struct AlertsAnswer: Encodable {
        struct Row: Encodable {
            var id: String
            var name: String
            var meaning: String
            /// What a person can do about it.
            var action: String
            var unit: String
            var limit: Double
            /// The rule's own, where an operator has set another.
            var standardLimit: Double?
            var isAboveBad: Bool
            var value: Double?
            var isFiring: Bool
            var isOverTime: Bool
            var mutedUntil: Int64?
            var past: [Double?]
        }

        var rules: [Row]
        /// Where messages go, in words; `nil` where they go nowhere.
        var receiver: String?
        /// Why the operators' own limits and silences do not hold; `nil` where they do.
        var fault: String?

        init(_ call: ConsoleCall) {
            receiver = call.parts.facts.alertReceiver
            do throws(BackupFailure) { _ = try AlertBook.read(from: call.parts.facts.data) } catch {
                fault = error.description
            }
            rules = AlertReading.all(
                call.parts.telemetry,
                call.parts.metrics,
                data: call.parts.facts.data,
                started: call.parts.facts.started,
                now: call.parts.time.now()
            ).map { reading in
                let rule = reading.rule
                return Row(
                    id: rule.id,
                    name: rule.name,
                    meaning: rule.meaning,
                    action: rule.action,
                    unit: rule.unit,
                    limit: reading.limit,
                    standardLimit: reading.limit == rule.limit ? nil : rule.limit,
                    isAboveBad: rule.isAboveBad,
                    value: reading.value,
                    isFiring: reading.isFiring,
                    isOverTime: rule.isOverTime,
                    mutedUntil: reading.mutedUntil?.milliseconds,
                    past: reading.past
                )
            }
        }
    }
}

extension ConsoleCall {
    fileprivate func changeAlert(
        _ change: ConsoleAPI.AlertChange,
        _ action: String,
        _ body: (inout AlertBook) -> Void
    ) throws {
        guard let rule = AlertRule.all.first(where: { $0.id == change.rule }) else {
            throw ConsoleRefusal("There is no such alert.", status: 404)
        }
        var book = try AlertBook.read(from: parts.facts.data)
        body(&book)
        try book.save(to: parts.facts.data)
        try note(action, rule.id)
    }
}
