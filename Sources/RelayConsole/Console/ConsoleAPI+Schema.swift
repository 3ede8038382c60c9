import Foundation
import Records
import RelayCore
import RelayStore
import Wire

/// Record types, indexes, roles, and promotion to production.
extension ConsoleAPI {
    static let schema: [ConsoleRoute] = [
        .get("schema") { call in
            let home = try call.home()
            let schema = try schemas(call, home).schema(of: home.environment)
            let counts =
                try call.parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
                    try survey.publicCounts(upTo: SchemaAnswer.countBound)
                } ?? [:]
            return SchemaAnswer(schema, counts: counts)
        },
        .get("schema/diff") { call in
            let home = try call.home()
            return ChangeAnswer(try schemas(call, home).promoting(applies: false), isApplied: false)
        },
        .post("schema/import") { call in
            let home = try call.home()
            let ask = try call.body(ImportRequest.self)
            let text = SchemaText(parsing: ask.text)
            guard text.isValid else { return ChangeAnswer(refused: text) }
            let change = try schemas(call, home).importing(text.schema, applies: ask.applies)
            if ask.applies, change.isAllowed { try call.note("schema.import", "development", in: home) }
            return ChangeAnswer(change, isApplied: ask.applies && change.isAllowed, text)
        },
        .post("schema/promote") { call in
            let home = try call.home()
            let production = ContainerEnvironment(home.container, .production)
            try call.confirmInProduction(production)
            let change = try schemas(call, home).promoting(applies: true)
            if change.isAllowed {
                let count = change.difference.changes.count
                try call.note("schema.promote", "\(count) changes", in: production)
            }
            return ChangeAnswer(change, isApplied: change.isAllowed)
        },
        .post("schema/edit") { call in
            let home = try call.home()
            guard home.environment == .development else {
                throw ConsoleRefusal("A schema is changed in development and promoted from there.")
            }
            let edit = try call.body(SchemaEdit.self)
            let schemas = schemas(call, home)
            let new = try edit.apply(to: try schemas.schema(of: .development))
            let change = try schemas.importing(new, applies: true)
            guard change.isAllowed else {
                throw ConsoleRefusal(change.offences.map { "\($0.element.sentenceName) \($0.reason)." }.joined())
            }
            try call.note("schema.edit", edit.subject, in: home, detail: edit.declaration ?? "")
            return ChangeAnswer(change, isApplied: true)
        },
        .get("schema/indexes") { try IndexAnswer($0) },
        .post("schema/try") { call in
            let home = try call.home()
            let schema = try schemas(call, home).schema(of: home.environment)
            return try call.body(Trial.self).outcome(schema)
        },
        .post("schema/member") { call in
            let home = try call.home()
            let ask = try call.body(Membership.self)
            try call.confirmInProduction(home)
            try change(ask, call, home)
            try call.note(ask.isGiven ? "role.give" : "role.take", "\(ask.role) \(ask.user)", in: home)
            return Done()
        },
    ]

    private static func schemas(_ call: ConsoleCall, _ home: ContainerEnvironment) -> SchemaFolder {
        SchemaFolder(folder: call.parts.facts.data, container: home.container)
    }

    private static func change(_ ask: Membership, _ call: ConsoleCall, _ home: ContainerEnvironment) throws {
        let user = UserID(ask.user)
        let isKey = try call.parts.accounts.serverKeys().contains { $0.user == user && $0.home == home }
        guard try isKey || call.parts.accounts.accounts(of: [user], in: home)[user] != nil else {
            throw ConsoleRefusal("There is no user \(ask.user) in this environment.", status: 404)
        }
        try schemas(call, home).change(home.environment) { schema in
            guard schema.roles.contains(Role(ask.role)) else {
                throw ConsoleRefusal("The schema declares no role \(ask.role).")
            }
            var roles = schema.members[user] ?? []
            if ask.isGiven { roles.insert(Role(ask.role)) } else { roles.remove(Role(ask.role)) }
            var changed = schema
            changed.members[user] = roles.isEmpty ? nil : roles
            return (changed == schema ? nil : changed, ())
        }
    }

    private struct ImportRequest: Decodable {
        var text: String
        var applies: Bool
    }

    private struct Membership: Decodable {
        var user: String
        var role: String
        var isGiven: Bool
    }

    /// Returns the rights of a user with these roles.
    private struct Trial: Decodable {
        /// The names of roles; World is always included.
        var roles: [String]
        var isCreator: Bool

        struct Outcome: Encodable {
            var recordType: String
            var rights: [String]
        }

        func outcome(_ schema: Schema) -> [Outcome] {
            let all = [Role.world] + roles.map { Role($0) } + (isCreator ? [.creator] : [])
            return schema.types.sorted { $0.key < $1.key }.map {
                Outcome(recordType: $0.key, rights: $0.value.rights(of: all).keywords)
            }
        }
    }
}
