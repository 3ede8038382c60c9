import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

/// The push services and the registered devices, without the devices' tokens.
extension ConsoleAPI {
    static let pushes: [ConsoleRoute] = [
        .get("pushes") { try PushesAnswer($0) },
        .post("pushes/test") { call in
            struct Request: Decodable { var id: String }
            let home = try call.home()
            let id = try call.body(Request.self).id
            let found = try call.parts.accounts.pushDevices().first { $0.id == id && $0.home == home }
            guard let device = found else {
                throw ConsoleRefusal("This device is no longer registered.", status: 404)
            }
            guard let gateway = call.parts.push else {
                throw ConsoleRefusal("No push service is configured. See: zonecast push --help", status: 409)
            }
            let outcome = await gateway.send(.test(for: device), to: device.target)
            try call.note(
                "push.test",
                device.user.recordName,
                in: home,
                detail: outcome == .taken ? "accepted" : "not accepted"
            )
            return TestAnswer(taken: outcome == .taken, sentence: outcome.sentence)
        },
    ]

    private struct TestAnswer: Encodable {
        var taken: Bool
        var sentence: String
    }

    private struct PushesAnswer: Encodable {
        struct Service: Encodable {
            var name: String
            var isSetUp: Bool
            var detail: String?
            var command: String
            var devices: Int
            /// The error of the newest registration that has one.
            var lastFault: String?
        }

        struct Row: Encodable {
            var id: String
            var user: String
            var device: String
            var kind: String
            var registered: Int64
            var lastFault: String?

            init(_ device: PushDevice) {
                id = device.id
                user = device.user.recordName
                self.device = device.deviceID
                kind =
                    switch device.target {
                    case .apns(_, _, let isSandbox): isSandbox ? "Apple, sandbox" : "Apple"
                    case .webPush: "Web Push"
                    case .ntfy: "ntfy"
                    case .fcm: "Firebase"
                    }
                registered = device.registered.milliseconds
                lastFault = device.lastFault
            }
        }

        var services: [Service]
        var count: Int
        var devices: [Row]
        /// In Base64URL.
        var webPushKey: String?

        init(_ call: ConsoleCall) throws {
            let home = try call.home()
            let all = try call.parts.accounts.pushDevices().filter { $0.home == home }
            services = call.parts.facts.pushServices.map { service in
                let own = all.filter { $0.target.service == service.service }
                return Service(
                    name: service.name,
                    isSetUp: service.isSetUp,
                    detail: service.detail,
                    command: service.command,
                    devices: own.count,
                    lastFault: own.last { $0.lastFault != nil }?.lastFault
                )
            }
            count = all.count
            devices = all.suffix(500).reversed().map { Row($0) }
            webPushKey = call.parts.push?.webPushKey.map { Base64URL.encode($0) }
        }
    }
}
