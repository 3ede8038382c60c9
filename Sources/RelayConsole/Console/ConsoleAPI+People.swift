import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

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
