import Records
import RelayAPI
import RelayCore
import RelayStore

/// How much there is of how much there may be, which rates hold, and who runs into them.
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

    /// No number: as configured; 0: any number.
    private struct QuotaChange: Decodable {
        var privateBytes: Int64?
        var publicRecords: Int64?
        var publicAssets: Int64?
        var publicTransfer: Int64?

        var quota: ContainerQuota {
            get throws {
                let asked = [privateBytes, publicRecords, publicAssets, publicTransfer]
                guard asked.allSatisfy({ $0 ?? 0 >= 0 }) else {
                    throw ConsoleRefusal("A quota is a number of bytes, or nothing.")
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
            /// Of the account; `nil` where it is gone.
            var id: Int64?
            /// What they sign in with.
            var name: String?
            var bytes: Int64
            var zones: Int
            /// `nil`: any number.
            var limit: Int64?
            /// `nil`: as everybody; 0: any number.
            var own: Int64?
        }

        /// One kind of bytes.
        struct Meter: Encodable {
            /// `nil` where it is each user's.
            var used: Int64?
            /// `nil`: any number.
            var limit: Int64?
            /// What is set for this container; `nil`: as configured; 0: any number.
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
            /// Where it is changed, and what holds.
            var settings: [Setting]
            /// Refusals in the last day.
            var refused: Int
        }

        struct Hit: Encodable {
            var rate: String
            /// `user`, `address`, `account` or `anyone`.
            var kind: String
            /// A pseudonym, as in logs; a container's name where it is anyone.
            var who: String
            var count: Int
            /// Seconds since the last.
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
        case .requests: "Requests of one user, or of one address nobody has signed in at"
        case .publicRequests: "Requests to a container's public database, and what each user has of their own first"
        case .failedCredentials: "Wrong tokens or signatures from one address, in a minute"
        case .failedSignIns: "Wrong passwords from one address, in a minute"
        case .failedSignInsOfAccount: "Wrong passwords for one account, in an hour"
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
    /// As answers for programs have it, where any number is none.
    fileprivate var orZeroForAny: Int64 { self == .max ? 0 : self }
}
