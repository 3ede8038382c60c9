import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore

/// The connected devices, and the subscriptions.
extension ConsoleAPI {
    static let devices: [ConsoleRoute] = [
        .get("devices") { call in
            let home = try call.home()
            let (devices, count) = call.parts.hub.devices(in: home, limit: 500)
            let now = call.parts.time.uptime()
            let totals = call.parts.hub.noticeCounts
            return DevicesAnswer(
                count: count,
                sent: totals.sent,
                merged: totals.merged,
                dropped: totals.dropped,
                waiting: call.parts.metrics.gauge("zonecast_notice_queue") ?? 0,
                devices: devices.map { .init($0, at: now) }
                    .sorted { ($0.user, $0.device) < ($1.user, $1.device) }
            )
        },
        .post("devices/disconnect") { call in
            let home = try call.home()
            let ask = try call.body(Device.self)
            guard call.parts.hub.disconnect(ask.device, of: NoticeAddress(store: home, user: UserID(ask.user))) else {
                throw ConsoleRefusal("This device is no longer connected.", status: 404)
            }
            try call.note("device.disconnect", ask.user, in: home)
            return Done()
        },
        .post("devices/notice") { call in
            let home = try call.home()
            let ask = try call.body(Device.self)
            call.parts.hub.sendTestNotice(to: NoticeAddress(store: home, user: UserID(ask.user)))
            try call.note("device.test-notice", ask.user, in: home)
            return Done()
        },
        .get("subscriptions") { call in
            let home = try call.home()
            let rows =
                try call.parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
                    try survey.subscriptions(limit: 500)
                } ?? []
            return ["subscriptions": rows.map { SubscriptionAnswer($0) }]
        },
    ]

    private struct Device: Decodable {
        var user: String
        var device: String
    }

    private struct DevicesAnswer: Encodable {
        struct Row: Encodable {
            var user: String
            var device: String
            /// The time since the device connected; `nil` for a device that uses long polls.
            var seconds: Int?
            var sent: Int
            var merged: Int
            var dropped: Int
            var subscriptions: Int

            init(_ device: ListeningDevice, at now: Duration) {
                user = device.address.user.recordName
                self.device = device.deviceID
                seconds = device.since.map { max(0, Int((now - $0).inSeconds)) }
                sent = device.notices.sent
                merged = device.notices.merged
                dropped = device.notices.dropped
                subscriptions = device.subscriptions
            }
        }

        var count: Int
        /// The counts of all connections since the relay's start, in all containers.
        var sent: Int
        var merged: Int
        var dropped: Int
        /// The number of notices queued for slow readers, over all connections.
        var waiting: Int64
        var devices: [Row]
    }

    private struct SubscriptionAnswer: Encodable {
        var user: String
        var database: String
        var id: String
        var kind: String
        var zone: String?
        var recordType: String?
        var firesOnce: Bool

        init(_ row: StoreSurvey.SubscriptionRowOfUser) {
            user = row.user.recordName
            database = row.scope.pathName
            id = row.subscription.id
            recordType = row.subscription.query?.recordType ?? row.subscription.recordType
            firesOnce = row.subscription.query?.firesOnce ?? false
            switch row.subscription.kind {
            case .database: kind = "database"
            case .zone(let watched):
                kind = "zone"
                zone = watched?.zoneName ?? "every zone"
            case .query(let query):
                kind = "query"
                zone = query.zone?.zoneName
            }
        }
    }
}
