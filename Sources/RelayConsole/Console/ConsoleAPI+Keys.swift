import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

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

        init(_ issuer: ForeignIssuer) {
            self.issuer = issuer.issuer
            audiences = issuer.audiences
            created = issuer.created.milliseconds
        }
    }
}
