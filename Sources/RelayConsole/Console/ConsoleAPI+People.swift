import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayServer

/// User accounts and their sessions.
extension ConsoleAPI {
    static let people: [ConsoleRoute] = [
        .get("users") { call in
            let words = (call["words"] ?? "").lowercased()
            if words.hasPrefix("_"), let home = try? call.home() {
                // The search text is a user record name in this container.
                let found = try call.parts.accounts.profile(of: UserID(words), in: home)
                let users = found.map { [AccountAnswer($0.account)] } ?? []
                return AccountsAnswer(count: users.count, users: users)
            }
            let address = AccountRules.canonicalEmail(words)
            let all = try call.parts.accounts.accounts().map { AccountAnswer($0) }
                .filter { words.isEmpty || $0.searched.contains(words) || (address != nil && $0.email == address) }
            let limit = call.number("limit", in: 1...1_000, else: 200)
            return AccountsAnswer(count: all.count, users: Array(all.prefix(limit)))
        },
        .get("users/one") { call in
            let account = try account(call, call["id"])
            let accounts = call.parts.accounts
            let quota = try accounts.privateQuota(of: account.id)
            let configured = call.parts.facts.limits.quota
            return PersonAnswer(
                user: AccountAnswer(account),
                privateQuota: quota == .max ? 0 : quota,
                containers: try accounts.profiles(of: account.id).map { home, profile in
                    let use =
                        try call.parts.stores.existingStore(of: home)?.read { reader throws(RelayError) in
                            try reader.storageUse(of: profile.user)
                        } ?? StorageUse()
                    let limit = try quota ?? configured.replaced(by: accounts.quota(of: home)).privateBytes
                    return .init(
                        container: home.container.name,
                        environment: home.environment.rawValue,
                        userRecordName: profile.user.recordName,
                        isDiscoverable: profile.isDiscoverable,
                        bytes: use.records + use.assets,
                        limit: limit == .max ? nil : limit
                    )
                },
                devices: try devices(call, account),
                sessions: try accounts.sessions(of: account.id).map {
                    .init(
                        id: String($0.id.number, radix: 16),
                        container: $0.home.container.name,
                        environment: $0.home.environment.rawValue,
                        isKept: $0.kind == .kept,
                        created: $0.created.milliseconds,
                        used: $0.used?.milliseconds
                    )
                }
            )
        },
        .post("users/add") { call in
            struct Request: Decodable { var email: String, password: String }
            let ask = try call.body(Request.self)
            let account = try call.parts.accounts.addAccount(email: ask.email, password: ask.password)
            try call.note("user.add", AccountAnswer(account).name)
            return AccountAnswer(account)
        },
        .post("users/disable") { call in
            struct Request: Decodable { var id: Int64, isDisabled: Bool }
            let ask = try call.body(Request.self)
            let account = try account(call, "\(ask.id)")
            try call.parts.accounts.setDisabled(ask.isDisabled, of: account.id)
            try call.note(ask.isDisabled ? "user.disable" : "user.enable", AccountAnswer(account).name)
            return Done()
        },
        .post("users/quota") { call in
            /// Without `bytes` the quota is the default; 0 means no limit.
            struct Request: Decodable { var id: Int64, bytes: Int64? }
            let ask = try call.body(Request.self)
            let account = try account(call, "\(ask.id)")
            guard ask.bytes ?? 0 >= 0 else { throw ConsoleRefusal("A quota must be a number of bytes or empty.") }
            try call.parts.accounts.setPrivateQuota(ask.bytes == 0 ? .max : ask.bytes, of: account.id)
            let detail = ask.bytes.map { $0 == 0 ? "no limit" : ByteText.of($0) } ?? "as configured"
            try call.note("user.quota", AccountAnswer(account).name, detail: detail)
            return Done()
        },
        .post("users/password") { call in
            /// Requires the operator's own password, because an operator who sets a password can sign in as the user.
            struct Request: Decodable { var id: Int64, password: String, own: String }
            let ask = try call.body(Request.self)
            let account = try account(call, "\(ask.id)")
            guard case .email = account.login else {
                throw ConsoleRefusal("This user signs in without a password of this relay.")
            }
            try await call.confirm(password: ask.own)
            let name = AccountAnswer(account).name
            let isOperator = try call.parts.accounts.operators().contains { $0.name == name }
            guard name == call.person.name || !isOperator else {
                throw ConsoleRefusal("This user is an operator, who changes this password in the console.")
            }
            try call.parts.accounts.setPassword(ask.password, of: account.id)
            try call.note("user.password", AccountAnswer(account).name)
            return Done()
        },
        .post("users/delete") { call in
            /// Contains the name that the operator has typed, to prevent accidental deletions.
            struct Request: Decodable { var id: Int64, name: String }
            let ask = try call.body(Request.self)
            let account = try account(call, "\(ask.id)")
            let name = AccountAnswer(account).name
            guard ask.name == name else { throw ConsoleRefusal("Type \(name) to confirm.") }
            let zones = try await UserRemoval(call, account).run()
            try call.note("user.delete", name, detail: "\(zones) zones")
            return ["zones": zones]
        },
        .post("users/sign-out") { call in
            struct Request: Decodable { var id: Int64, session: String? }
            let ask = try call.body(Request.self)
            let account = try account(call, "\(ask.id)")
            if let session = ask.session {
                let own = try call.parts.accounts.sessions(of: account.id)
                guard let found = own.first(where: { String($0.id.number, radix: 16) == session }) else {
                    throw ConsoleRefusal("This session no longer exists.", status: 404)
                }
                try call.parts.accounts.revokeSession(found.id)
            } else {
                try call.parts.accounts.revokeSessions(of: account.id, in: nil)
            }
            try call.note("user.sign-out", AccountAnswer(account).name)
            return Done()
        },
    ]

    private static func devices(_ call: ConsoleCall, _ account: Account) throws -> [PersonAnswer.Device] {
        let homes = try call.parts.accounts.profiles(of: account.id).map { ($0.home, $0.profile.user) }
        let sleeping = try call.parts.accounts.pushDevices()
        return homes.flatMap { home, user in
            let (listening, _) = call.parts.hub.devices(in: home, limit: .max)
            return listening.filter { $0.address.user == user && !$0.deviceID.hasPrefix("push-") }.map {
                PersonAnswer.Device(
                    container: home.container.name,
                    environment: home.environment.rawValue,
                    device: $0.deviceID,
                    way: $0.since == nil ? "long poll" : "socket",
                    sent: $0.notices.sent
                )
            }
                + sleeping.filter { $0.home == home && $0.user == user }.map {
                    PersonAnswer.Device(
                        container: home.container.name,
                        environment: home.environment.rawValue,
                        device: $0.deviceID,
                        way: "woken by \($0.target.service)"
                    )
                }
        }
    }

    private static func account(_ call: ConsoleCall, _ id: String?) throws -> Account {
        guard let number = id.flatMap({ Int64($0) }),
            let account = try call.parts.accounts.account(Account.ID(number))
        else { throw ConsoleRefusal("There is no such user.", status: 404) }
        return account
    }

    private struct AccountsAnswer: Encodable {
        var count: Int
        var users: [AccountAnswer]
    }

    struct AccountAnswer: Encodable {
        var id: Int64
        /// The name used to sign in.
        var name: String
        /// `password`, `dev` or the issuer.
        var way: String
        var email: String?
        var phone: String?
        var givenName: String?
        var familyName: String?
        var isDisabled: Bool
        var created: Int64

        var searched: String {
            [name, way, email, givenName, familyName].compactMap { $0 }.joined(separator: " ").lowercased()
        }

        init(_ account: Account) {
            id = account.id.number
            switch account.login {
            case .email(let address): (name, way) = (address, "password")
            case .dev(let dev): (name, way) = ("dev-\(dev)", "dev")
            case .foreign(let issuer, let subject): (name, way) = (subject, issuer)
            }
            email = account.email
            phone = account.phone
            givenName = account.name.given
            familyName = account.name.family
            isDisabled = account.isDisabled
            created = account.created.milliseconds
        }
    }

    private struct PersonAnswer: Encodable {
        struct Container: Encodable {
            var container: String
            var environment: String
            var userRecordName: String
            var isDiscoverable: Bool
            /// The number of bytes in the private database.
            var bytes: Int64
            var limit: Int64?
        }

        /// A device that is connected or has a push registration.
        struct Device: Encodable {
            var container: String
            var environment: String
            var device: String
            /// `socket`, `long poll` or the push service.
            var way: String
            var sent: Int?
        }

        struct SignIn: Encodable {
            var id: String
            var container: String
            var environment: String
            var isKept: Bool
            var created: Int64
            var used: Int64?
        }

        var user: AccountAnswer
        /// `nil` for the default; 0 for no limit.
        var privateQuota: Int64?
        var containers: [Container]
        var devices: [Device]
        var sessions: [SignIn]
    }
}

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
                try call.parts.stores.survey(home) { survey throws(RelayError) in
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

        init(_ row: SurveyedSubscription) {
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

/// API tokens, server-to-server keys, trusted issuers and containers.
extension ConsoleAPI {
    static let keys: [ConsoleRoute] = [
        .get("tokens") { call in
            let home = try call.home()
            return ["tokens": try call.parts.accounts.apiTokens().filter { $0.home == home }.map { TokenAnswer($0) }]
        },
        .post("tokens/add") { call in
            let home = try call.home()
            let ask = try call.body(TokenRequest.self)
            try ask.check()
            let (text, token) = try call.parts.accounts.addAPIToken(
                in: home,
                name: ask.name,
                notes: ask.notes ?? "",
                callbackURL: ask.callbackURL.flatMap { $0.isEmpty ? nil : $0 },
                allowedOrigins: ask.origins ?? []
            )
            try call.note("token.create", "\(ask.name) (\(token.id))", in: home)
            return ["text": text, "id": token.id]
        },
        .post("tokens/revoke") { call in
            let home = try call.home()
            let id = try call.body(Named.self).id
            guard let token = try call.parts.accounts.apiToken(id: id), token.home == home else {
                throw ConsoleRefusal("There is no such token here.", status: 404)
            }
            try call.confirmInProduction(home)
            try call.parts.accounts.revokeAPIToken(id)
            try call.note("token.revoke", "\(token.name) (\(id))", in: home)
            return Done()
        },
        .post("tokens/rotate") { call in
            let home = try call.home()
            let id = try call.body(Named.self).id
            guard let old = try call.parts.accounts.apiToken(id: id), old.home == home, old.revoked == nil else {
                throw ConsoleRefusal("There is no such token here.", status: 404)
            }
            try call.confirmInProduction(home)
            let (text, token) = try call.parts.accounts.addAPIToken(
                in: home,
                name: old.name,
                notes: old.notes,
                callbackURL: old.callbackURL,
                allowedOrigins: old.allowedOrigins
            )
            try call.parts.accounts.revokeAPIToken(id)
            try call.note("token.rotate", "\(old.name) (\(id), now \(token.id))", in: home)
            return ["text": text, "id": token.id]
        },
        .get("keys") { call in
            let home = try call.home()
            return KeysAnswer(
                keys: try call.parts.accounts.serverKeys().filter { $0.home == home }.map { KeyAnswer($0) },
                issuers: try call.parts.accounts.issuers(of: home.container).map { IssuerAnswer($0) },
                management: try call.parts.accounts.managementTokens().filter { $0.container == home.container }
                    .map { ManagementAnswer($0) }
            )
        },
        .post("keys/add") { call in
            struct Request: Decodable { var name: String, publicKey: String }
            let home = try call.home()
            let ask = try call.body(Request.self)
            let key = try call.parts.accounts.addServerKey(in: home, name: ask.name, publicKeyPEM: ask.publicKey)
            try call.note("key.create", "\(ask.name) (\(key.id.prefix(16)))", in: home)
            return KeyAnswer(key)
        },
        .post("keys/revoke") { call in
            let home = try call.home()
            let id = try call.body(Named.self).id
            guard let key = try call.parts.accounts.serverKey(id), key.home == home else {
                throw ConsoleRefusal("There is no such key here.", status: 404)
            }
            try call.confirmInProduction(home)
            try call.parts.accounts.revokeServerKey(id)
            try call.note("key.revoke", "\(key.name) (\(id.prefix(16)))", in: home)
            return Done()
        },
        .post("management/add") { call in
            struct Request: Decodable { var name: String, days: Int }
            let home = try call.home()
            let ask = try call.body(Request.self)
            guard (0...3_660).contains(ask.days) else { throw ConsoleRefusal("Choose 0 to 3660 days.") }
            let end = ask.days == 0 ? nil : call.parts.time.now() + .seconds(86_400 * ask.days)
            let (text, token) = try call.parts.accounts.addManagementToken(
                for: home.container,
                name: ask.name,
                expires: end
            )
            try call.note("management-token.create", "\(ask.name) (\(token.id))", in: home)
            return ["text": text, "id": token.id]
        },
        .post("management/revoke") { call in
            let home = try call.home()
            let id = try call.body(Named.self).id
            let token = try call.parts.accounts.managementTokens().first {
                $0.id == id && $0.container == home.container
            }
            guard let token else { throw ConsoleRefusal("There is no such token here.", status: 404) }
            try call.parts.accounts.revokeManagementToken(id)
            try call.note("management-token.revoke", "\(token.name) (\(id))", in: home)
            return Done()
        },
        .post("containers/add") { call in
            let name = try call.body(Named.self).id
            guard let container = ContainerID(name) else {
                throw ConsoleRefusal(ContainerID.rule(brokenBy: name))
            }
            try call.parts.accounts.addContainer(container)
            try call.note("container.create", name)
            return Done()
        },
        .post("containers/name") { call in
            struct Request: Decodable { var name: String }
            let home = try call.home()
            let name = try call.body(Request.self).name
            try call.parts.accounts.setTitle(name, of: home.container)
            try call.note("container.edit", home.container.name, in: home, detail: name)
            return Done()
        },
    ]

    private struct Named: Decodable { var id: String }

    private struct TokenRequest: Decodable {
        var name: String
        var notes: String?
        var callbackURL: String?
        var origins: [String]?

        /// Throws if the callback URL is not usable or an origin is not one that browsers send.
        func check() throws {
            if let callbackURL, !callbackURL.isEmpty, !Callback.isUsable(callbackURL) {
                throw ConsoleRefusal("Write the address with its scheme, like https://app.example/done.")
            }
            for origin in origins ?? [] {
                guard let objection = WebOrigin.objection(to: origin) else { continue }
                throw ConsoleRefusal(
                    "\"\(origin)\": \(objection) Write an origin as scheme and host without a path, like https://app.example."
                )
            }
        }
    }

    private struct TokenAnswer: Encodable {
        var id: String
        var name: String
        var notes: String
        var callbackURL: String?
        var origins: [String]
        var created: Int64
        var revoked: Int64?

        init(_ token: APIToken) {
            id = token.id
            name = token.name
            notes = token.notes
            callbackURL = token.callbackURL
            origins = token.allowedOrigins
            created = token.created.milliseconds
            revoked = token.revoked?.milliseconds
        }
    }

    private struct KeysAnswer: Encodable {
        var keys: [KeyAnswer]
        var issuers: [IssuerAnswer]
        var management: [ManagementAnswer]
    }

    private struct ManagementAnswer: Encodable {
        var id: String
        var name: String
        var created: Int64
        var expires: Int64?
        var revoked: Int64?
        var used: Int64?

        init(_ token: ManagementToken) {
            id = token.id
            name = token.name
            created = token.created.milliseconds
            expires = token.expires?.milliseconds
            revoked = token.revoked?.milliseconds
            used = token.used?.milliseconds
        }
    }

    private struct KeyAnswer: Encodable {
        var id: String
        var name: String
        var user: String
        var created: Int64
        var revoked: Int64?

        init(_ key: ServerKey) {
            id = key.id
            name = key.name
            user = key.user.recordName
            created = key.created.milliseconds
            revoked = key.revoked?.milliseconds
        }
    }

    private struct IssuerAnswer: Encodable {
        var issuer: String
        var audiences: [String]
        var created: Int64

        init(_ issuer: TokenIssuer) {
            self.issuer = issuer.issuer
            audiences = issuer.audiences
            created = issuer.created.milliseconds
        }
    }
}

/// Calls as a user, who allows it with a code of their account page.
extension ConsoleAPI {
    static let acting: [ConsoleRoute] = [
        // Any operation as a user, such as `act/private/records/query`, with a code that the user has given.
        ConsoleRoute(method: .post, name: "act/") { call in
            let home = try call.home()
            let operation = call.request.path.components(after: "/console/api/act/")
            guard let consent = HTTPField.Name("X-Zonecast-Consent"), let code = call.request.headers[consent] else {
                throw ConsoleRefusal("Ask the user for a code, which their account page creates.")
            }
            let (account, user) = try call.userOf(code: code, in: home)
            if operation.hasSuffix("/modify") { try call.confirmInProduction(home) }
            let name = try call.parts.accounts.account(account).map { AccountAnswer($0).name } ?? user.recordName
            try call.note("explorer.act-as-user", name, in: home, detail: String(operation.prefix(100)))
            let request = APIRequest(
                method: .post,
                path: "/database/1/\(home.container.name)/\(home.environment.rawValue)/\(operation)",
                body: call.request.body,
                remoteAddress: call.request.remoteAddress
            )
            return .raw(await call.parts.relay.respond(to: request, for: user))
        },
        .post("act") { call in
            struct Request: Decodable { var id: Int64, code: String }
            let home = try call.home()
            let ask = try call.body(Request.self)
            guard try call.userOf(code: ask.code, in: home).account.number == ask.id else {
                throw ConsoleRefusal("This code is another user's.")
            }
            return Done()
        },
    ]
}

extension ConsoleCall {
    /// Returns the user who created a code on their account page.
    fileprivate func userOf(code: String, in home: ContainerEnvironment) throws -> (account: Account.ID, user: UserID) {
        do throws(CredentialRefusal) {
            return try parts.relay.authenticator.user(ofWebToken: code, in: home)
        } catch {
            throw ConsoleRefusal(
                "The code is not valid for \(home.container.name) in \(home.environment.rawValue), or has expired. Ask the user for a new one.",
                status: 403
            )
        }
    }
}
