import Foundation
import Records
import RelayAPI
import RelayCore
import Wire

/// Record types, indexes, roles, and promotion to production.
extension ConsoleAPI {
    static let schema: [ConsoleRoute] = [
        .get("schema") { call in
            let home = try call.home()
            let schema = try schemas(call, home).schema(of: home.environment)
            let counts =
                try call.parts.stores.survey(home) { survey throws(RelayError) in
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
                throw ConsoleRefusal(change.violations.map { "\($0.element.sentenceName) \($0.reason)." }.joined())
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

    private static func schemas(_ call: ConsoleCall, _ home: ContainerEnvironment) -> any ContainerSchemas {
        call.parts.home.schemas(of: home.container)
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

/// A schema for the console's pages.
struct SchemaAnswer: Encodable {
    struct Field: Encodable {
        var name: String
        var type: String
        var isSystem: Bool
        var isEncrypted: Bool
        var indexes: [String]
        /// The indexes that its type permits.
        var possible: [String]
    }

    struct Grant: Encodable {
        var role: String
        var rights: [String]
    }

    struct RecordTypeAnswer: Encodable {
        var name: String
        /// The number of records in the public database.
        var records: Int
        var isMore: Bool
        var fields: [Field]
        var grants: [Grant]
    }

    struct Member: Encodable {
        var user: String
        var roles: [String]
    }

    /// The maximum to which records are counted.
    static let countBound = 100_000

    var text: String
    var roles: [String]
    var members: [Member]
    var types: [RecordTypeAnswer]

    init(_ schema: Schema, counts: [String: Int]) {
        text = SchemaPrinter.text(of: schema)
        roles = schema.roles.map(\.name).sorted()
        members = schema.members.map { Member(user: $0.key.recordName, roles: $0.value.map(\.name).sorted()) }
            .sorted { $0.user < $1.user }
        types = schema.types.sorted { $0.key < $1.key }.map { name, type in
            let count = counts[name] ?? 0
            return RecordTypeAnswer(
                name: name,
                records: min(count, Self.countBound),
                isMore: count > Self.countBound,
                fields: Self.fields(of: type),
                grants: type.grants.filter { !$0.value.isEmpty }.sorted { $0.key.name < $1.key.name }.map {
                    Grant(role: $0.key.name, rights: $0.value.keywords)
                }
            )
        }
    }

    private static func fields(of type: RecordType) -> [Field] {
        let own = type.fields.sorted { $0.key < $1.key }.map { name, field in
            Field(
                name: name,
                type: FieldDeclaration(field).text,
                isSystem: false,
                isEncrypted: field.isEncrypted,
                indexes: field.indexes.keywords,
                possible: Indexes.all(for: field.type, isEncrypted: field.isEncrypted).keywords
            )
        }
        return own
            + Query.SystemField.allCases.map { field in
                Field(
                    name: field.rawValue,
                    type: FieldDeclaration(field.type).text,
                    isSystem: true,
                    isEncrypted: false,
                    indexes: (type.systemIndexes[field] ?? []).keywords,
                    possible: ["QUERYABLE", "SORTABLE"]
                )
            }
    }
}

/// The effect of a schema change, or the reasons why it is refused.
struct ChangeAnswer: Encodable {
    struct Change: Encodable {
        var sign: String
        var kind: String
        var element: String
        var recordType: String?
        var field: String?
        var role: String?
        var before: String?
        var after: String?

        init(_ change: SchemaDifference.Change) {
            sign = change.kind.sign
            kind = change.kind.rawValue
            element = change.element.sentenceName
            (recordType, field, role) = change.element.names
            before = change.before.isEmpty ? nil : change.before
            after = change.after.isEmpty ? nil : change.after
        }
    }

    struct Issue: Encodable {
        var line: Int?
        var column: Int?
        var isWarning: Bool
        var message: String
    }

    var isAllowed: Bool
    var isApplied: Bool
    var changes: [Change]
    var issues: [Issue]

    init(_ change: SchemaChange, isApplied: Bool, _ text: SchemaText? = nil) {
        isAllowed = change.isAllowed
        self.isApplied = isApplied
        changes = change.difference.changes.map(Change.init)
        issues =
            (text?.issues ?? []).map { Issue($0) }
            + change.violations.map { violation in
                let place = text?.positions[violation.element]
                return Issue(
                    line: place?.line,
                    column: place?.column,
                    isWarning: false,
                    message: "\(violation.element.sentenceName) \(violation.reason)"
                )
            }
    }

    /// Creates the response to an invalid schema text.
    init(refused text: SchemaText) {
        isAllowed = false
        isApplied = false
        changes = []
        issues = text.issues.map { Issue($0) }
    }
}

extension ChangeAnswer.Issue {
    fileprivate init(_ issue: SchemaIssue) {
        self.init(
            line: issue.position.line,
            column: issue.position.column,
            isWarning: issue.isWarning,
            message: issue.message
        )
    }
}

/// One edit in the console: a record type, a field with its indexes, the grants of a role, or a role.
struct SchemaEdit: Decodable {
    var recordType: String?
    /// A field in the schema language, which replaces the field of the same name: `title STRING QUERYABLE`.
    var declaration: String?
    var removeField: String?
    var removeType: Bool?
    /// The new grants by role, replacing the existing ones.
    var grants: [String: [String]]?
    var addRole: String?
    var removeRole: String?

    /// The subject of the audit entry.
    var subject: String {
        recordType ?? addRole ?? removeRole ?? "schema"
    }

    /// Returns the schema with this edit; throws if the edit is invalid.
    func apply(to old: Schema) throws -> Schema {
        var schema = old
        if let addRole {
            guard NameRules.isIdentifier(addRole) else {
                throw ConsoleRefusal("A role name must be a letter followed by letters, digits and underscores.")
            }
            schema.roles.insert(Role(addRole))
        }
        if let removeRole { schema.roles.remove(Role(removeRole)) }
        guard let recordType else { return schema }
        if removeType == true {
            schema.types[recordType] = nil
            return schema
        }
        guard NameRules.isIdentifier(recordType) else {
            throw ConsoleRefusal("A record type name must be a letter followed by letters, digits and underscores.")
        }
        var type = schema.types[recordType] ?? RecordType(systemIndexes: [.recordName: .queryable])
        if let declaration { try declare(declaration, in: &type) }
        if let removeField { type.fields[removeField] = nil }
        for (role, words) in grants ?? [:] {
            let all: [(Rights, String)] = [(.read, "READ"), (.create, "CREATE"), (.write, "WRITE")]
            let rights = all.filter { words.contains($0.1) }.reduce(into: Rights()) { $0.formUnion($1.0) }
            type.grants[Role(role)] = rights.isEmpty ? nil : rights
        }
        schema.types[recordType] = type
        return schema
    }

    /// Parses one line of the schema language; throws the parser's diagnostics.
    private func declare(_ line: String, in type: inout RecordType) throws {
        guard !line.contains(where: { $0 == "," || $0 == ")" || $0 == ";" }) else {
            throw ConsoleRefusal("Declare one field at a time, such as: title STRING QUERYABLE")
        }
        let text = SchemaText(parsing: "DEFINE SCHEMA\nRECORD TYPE T (\n\(line)\n);\n")
        guard text.isValid, let read = text.schema.types["T"] else {
            throw ConsoleRefusal(text.issues.map { "\($0.message)." }.joined(separator: " "))
        }
        type.fields.merge(read.fields) { $1 }
        for field in Query.SystemField.allCases where line.contains(field.rawValue) {
            type.systemIndexes[field] = read.systemIndexes[field]
        }
    }
}

/// The declared indexes, the indexes that queries require, and the resulting advice.
struct IndexAnswer: Encodable {
    struct Row: Encodable {
        var recordType: String
        var field: String
        var index: String
        /// Whether the schema declares it.
        var isDeclared: Bool
        /// Counted since the relay's start.
        var queries: Int
        var refused: Int
        var last: Int64?
        /// `missing`, `unused` or `used`.
        var advice: String
    }

    struct Made: Encodable {
        var recordType: String
        var target: String
        var isComplete: Bool
        var entries: Int
        var isMore: Bool
    }

    static let countBound = 100_000

    var since: Int64
    var rows: [Row]
    var made: [Made]

    init(_ call: ConsoleCall) throws {
        let home = try call.home()
        let parts = call.parts
        since = parts.facts.started
        let schema = try parts.home.schemas(of: home.container).schema(of: home.environment)
        var counts = Dictionary(
            uniqueKeysWithValues: parts.relay.queryUse.counts(of: home).map {
                (Place(recordType: $0.key.recordType, mark: $0.key.mark), $0.value)
            }
        )
        var rows: [Row] = []
        for (name, type) in schema.types.sorted(by: { $0.key < $1.key }) {
            for mark in Self.declared(type) {
                let count = counts.removeValue(forKey: Place(recordType: name, mark: mark))
                rows.append(Row(name, mark, isDeclared: true, count))
            }
        }
        // A field may have been deleted since its query.
        let missing = counts.filter { place, _ in
            schema.types[place.recordType].map { RequiredIndexes.isDeclared(place.mark.field, $0) } ?? false
        }
        rows += missing.map { Row($0.key.recordType, $0.key.mark, isDeclared: false, $0.value) }
            .sorted { ($0.recordType, $0.field) < ($1.recordType, $1.field) }
        self.rows = rows
        made =
            try parts.stores.survey(home) { survey throws(RelayError) in
                try survey.indexes(upTo: Self.countBound)
            }?.map {
                Made(
                    recordType: $0.recordType,
                    target: $0.target,
                    isComplete: $0.isComplete,
                    entries: min($0.entries, Self.countBound),
                    isMore: $0.entries > Self.countBound
                )
            } ?? []
    }

    private struct Place: Hashable {
        var recordType: String
        var mark: RequiredIndexes.Entry
    }

    private static func declared(_ type: RecordType) -> [RequiredIndexes.Entry] {
        let own = type.fields.sorted { $0.key < $1.key }.map { ($0.key, $0.value.indexes) }
        let system = Query.SystemField.allCases.map { ($0.rawValue, type.systemIndexes[$0] ?? []) }
        return (own + system).flatMap { name, indexes in
            [Indexes.queryable, .sortable, .searchable].filter { indexes.contains($0) }.map { .init(name, $0) }
        }
    }
}

extension IndexAnswer.Row {
    fileprivate init(_ type: String, _ mark: RequiredIndexes.Entry, isDeclared: Bool, _ count: QueryUse.Count?) {
        self.init(
            recordType: type,
            field: mark.field,
            index: mark.index.keywords.first ?? "",
            isDeclared: isDeclared,
            queries: count?.queries ?? 0,
            refused: isDeclared ? 0 : count?.refused ?? 0,
            last: count?.last.milliseconds,
            advice: !isDeclared ? "missing" : count == nil ? "unused" : "used"
        )
    }
}
