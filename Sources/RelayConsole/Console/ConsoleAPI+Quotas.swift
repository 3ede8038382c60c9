import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore

/// Storage use and quotas, rates, and the callers that exceed them.
extension ConsoleAPI {
    static let quotas: [ConsoleRoute] = [
        .get("quotas") { try QuotaAnswer($0) },
        .post("quotas/container") { call in
            let home = try call.home()
            let quota = try call.body(QuotaChange.self).quota
            try call.confirmInProduction(home)
            try call.parts.accounts.setQuota(quota, of: home)
            try call.note("container.quota", home.container.name, in: home, detail: quota.words)
            return Done()
        },
        .get("rates") { RatesAnswer($0) },
    ]

    /// A missing number means the configured quota; 0 means no limit.
    private struct QuotaChange: Decodable {
        var privateBytes: Int64?
        var publicRecords: Int64?
        var publicAssets: Int64?
        var publicTransfer: Int64?

        var quota: ContainerQuota {
            get throws {
                let asked = [privateBytes, publicRecords, publicAssets, publicTransfer]
                guard asked.allSatisfy({ $0 ?? 0 >= 0 }) else {
                    throw ConsoleRefusal("A quota must be a number of bytes or empty.")
                }
                let bounds = asked.map { $0 == 0 ? .max : $0 }
                return ContainerQuota(
                    privateBytes: bounds[0],
                    publicRecords: bounds[1],
                    publicAssets: bounds[2],
                    publicTransfer: bounds[3]
                )
            }
        }
    }

    private struct QuotaAnswer: Encodable {
        struct Owner: Encodable {
            var user: String
            /// The account's number; `nil` if the account is deleted.
            var id: Int64?
            /// The name used to sign in.
            var name: String?
            var bytes: Int64
            var zones: Int
            /// `nil` for no limit.
            var limit: Int64?
            /// The user's override; `nil` for none; 0 for no limit.
            var own: Int64?
        }

        /// The use and quota of one kind of bytes.
        struct Meter: Encodable {
            /// `nil` if the quota is per user.
            var used: Int64?
            /// `nil` for no limit.
            var limit: Int64?
            /// The container's override; `nil` for the configured quota; 0 for no limit.
            var own: Int64?
            var configured: Int64?
        }

        var users: Int
        var privateBytes: Meter
        var publicRecords: Meter
        var publicAssets: Meter
        var publicTransfer: Meter
        var owners: [Owner]

        init(_ call: ConsoleCall) throws {
            let home = try call.home()
            let configured = call.parts.facts.limits.quota
            let own = try call.parts.accounts.quota(of: home)
            let quota = configured.replaced(by: own)
            let report = try StorageReport(
                folder: call.parts.facts.data,
                home: home,
                month: CalendarMonth(of: call.parts.time.now()),
                naming: 100
            )
            let count = report.users
            func meter(
                _ used: Int64,
                _ part: KeyPath<QuotaSettings, QuotaSettings.Growing?>,
                _ own: Int64?
            ) -> Meter {
                Meter(
                    used: used,
                    limit: quota[keyPath: part]?.bytes(forUsers: count),
                    own: own?.orZeroForAny,
                    configured: configured[keyPath: part]?.bytes(forUsers: count)
                )
            }
            users = count
            privateBytes = Meter(
                limit: quota.privateBytes,
                own: own.privateBytes?.orZeroForAny,
                configured: configured.privateBytes
            )
            publicRecords = meter(report.publicUse.records, \.publicRecords, own.publicRecords)
            publicAssets = meter(report.publicUse.assets, \.publicAssets, own.publicAssets)
            publicTransfer = meter(report.sent, \.publicTransfer, own.publicTransfer)
            let single = try call.parts.accounts.ownQuotas().users[home] ?? [:]
            owners = try report.owners.map { owner in
                let account = try call.parts.accounts.profile(of: owner.user, in: home)?.account
                let limit = single[owner.user] ?? quota.privateBytes
                return Owner(
                    user: owner.user.recordName,
                    id: account?.id.number,
                    name: account.map { AccountAnswer($0).name },
                    bytes: owner.use.total,
                    zones: owner.zones,
                    limit: limit == .max ? nil : limit,
                    own: single[owner.user]?.orZeroForAny
                )
            }
        }
    }

    private struct RatesAnswer: Encodable {
        struct Setting: Encodable {
            var key: String
            var value: String
            var unit: String
        }

        struct Row: Encodable {
            var id: String
            var meaning: String
            /// The settings of the rate and their current values.
            var settings: [Setting]
            /// The number of refused requests in the last 24 hours.
            var refused: Int
        }

        struct Hit: Encodable {
            var rate: String
            /// `user`, `address`, `account` or `anyone`.
            var kind: String
            /// A pseudonym as in logs; for `anyone` the container's name.
            var who: String
            var count: Int
            /// Seconds since the last refused request.
            var seconds: Int
        }

        var rates: [Row]
        var hits: [Hit]

        init(_ call: ConsoleCall) {
            let now = call.parts.time.uptime()
            let found = call.parts.relay.rateHits()
            let values = Dictionary(call.parts.facts.settings.map { ($0.key, $0) }) { first, _ in first }
            rates = RateName.allCases.map { rate in
                Row(
                    id: rate.rawValue,
                    meaning: rate.meaning,
                    settings: rate.keys.map {
                        Setting(key: $0, value: values[$0]?.value ?? "", unit: values[$0]?.unit ?? "")
                    },
                    refused: found.reduce(0) { $0 + ($1.rate == rate ? $1.count : 0) }
                )
            }
            hits = found.prefix(200).map { hit in
                Hit(
                    rate: hit.rate.rawValue,
                    kind: hit.subject.kind,
                    who: call.parts.requests.names.of(hit.subject) ?? hit.subject.container ?? "",
                    count: hit.count,
                    seconds: max(0, Int((now - hit.last).inSeconds))
                )
            }
        }
    }
}

extension RateName {
    fileprivate var meaning: String {
        switch self {
        case .requests: "Requests of one user, or of one address without sign-in"
        case .publicRequests: "Requests to a container's public database: the shared rate and each user's own"
        case .failedCredentials: "Invalid tokens or signatures from one address, per minute"
        case .failedSignIns: "Wrong passwords from one address, per minute"
        case .failedSignInsOfAccount: "Wrong passwords for one account, per hour"
        }
    }

    fileprivate var keys: [String] {
        switch self {
        case .requests: ["limits.requests-per-second", "limits.request-burst"]
        case .publicRequests: ["limits.public-requests-per-second", "limits.public-requests-per-user"]
        case .failedCredentials: ["limits.failed-credentials-per-minute"]
        case .failedSignIns: ["limits.failed-sign-ins-per-minute"]
        case .failedSignInsOfAccount: ["limits.failed-sign-ins-per-account"]
        }
    }
}

extension RateSubject {
    fileprivate var kind: String {
        switch self {
        case .user: "user"
        case .address: "address"
        case .account: "account"
        case .anyone: "anyone"
        }
    }

    fileprivate var container: String? {
        if case .anyone(let container) = self { container.name } else { nil }
    }
}

extension Int64 {
    /// The value in responses, where 0 means no limit.
    fileprivate var orZeroForAny: Int64 { self == .max ? 0 : self }
}
