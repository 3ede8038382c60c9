import Records
import RelayAPI
import RelayCore
import RelayServer

/// The relay's recent metrics and request log.
extension ConsoleAPI {
    static let telemetry: [ConsoleRoute] = [
        .get("telemetry") { call in
            let day = call.parts.telemetry.lastDay()
            guard call["period"] != "day" else { return TelemetrySummary(day) }
            let end = call.parts.time.now() + .seconds(-3_600)
            let before = day.filter { $0.at <= end && $0.at >= end + .seconds(-3_600) }
            return TelemetrySummary(call.parts.telemetry.lastHour(), before: before)
        },
        .get("logs") { call in
            let operation = call["operation"]
            let user = call["user"]
            let wantsErrors = call["errors"] == "1"
            let container = call["container"]
            let environment = call["environment"]
            let all = call["everywhere"] == "1"
            let lines = call.parts.requests.look(
                after: call.number("after", in: 0...Int.max, else: 0),
                limit: call.number("limit", in: 1...500, else: 200)
            ) { line in
                (operation == nil || line.operation == operation) && (!wantsErrors || line.status >= 400)
                    && (user == nil || line.user == user)
                    && (all || (line.container == container && line.environment == environment))
            }
            return ["lines": lines]
        },
    ]
}
