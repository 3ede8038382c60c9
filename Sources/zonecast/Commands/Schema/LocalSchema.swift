import Foundation
import Records
import RelayCore
import Wire

/// The schema commands on a data folder.
struct LocalSchema {
    private let container: ContainerID
    private let options: FolderOptions

    init(_ container: ContainerID, _ options: FolderOptions) {
        self.container = container
        self.options = options
    }

    /// Runs `body` with the container's schemas, if the container exists.
    private func withSchemas<Value>(_ body: (any ContainerSchemas) throws -> Value) throws -> Value {
        try options.withDirectory { directory in
            try directory.requireContainer(container)
            return try body(options.home.schemas(of: container))
        }
    }

    private func note(_ action: String, _ environment: Records.Environment, _ subject: String) throws {
        try options.change(action, subject, in: ContainerEnvironment(container, environment)) { _ in }
    }

    func schema(_ environment: Records.Environment) throws -> Schema {
        try withSchemas { try $0.schema(of: environment) }
    }

    func export(_ environment: Records.Environment, to path: String?) throws {
        let text = SchemaPrinter.text(of: try withSchemas { try $0.schema(of: environment) })
        try Self.say(text, of: container, environment, to: path, json: options.json)
    }

    static func say(
        _ text: String,
        of container: ContainerID,
        _ environment: Records.Environment,
        to path: String?,
        json: Bool
    ) throws {
        if let path { try OutputFile.write(text, to: path) }
        if json {
            try Terminal.say(
                json: ["container": container.name, "environment": environment.rawValue, "schema": text]
            )
        } else if path == nil {
            Terminal.deliver(text)
        }
    }

    func importText(_ file: SchemaFile, applies: Bool) throws {
        try file.requireValid(json: options.json)
        let change = try withSchemas { try $0.importing(file.text.schema, applies: applies) }
        let report = SchemaReport(change, applies: applies, issues: file.reported + file.reported(change.violations))
        try report.conclude(.schemaImport, applies: applies, json: options.json) {
            try note("schema.import", .development, report.counted)
        }
    }

    func promote(applies: Bool) throws {
        let change = try withSchemas { try $0.promoting(applies: applies) }
        let issues = change.violations.map { violation in
            let message = "\(violation.element.sentenceName) \(violation.reason)"
            return SchemaReport.Issue(message: message, shown: message)
        }
        let report = SchemaReport(change, applies: applies, issues: issues)
        try report.conclude(.promotion, applies: applies, json: options.json) {
            try note("schema.promote", .production, report.counted)
        }
    }

    /// Prints what a promotion would change.
    func diff() throws {
        try say(try withSchemas { try $0.promoting(applies: false) }, of: "production and development")
    }

    /// Prints what an import of the text would change.
    func diff(with file: SchemaFile) throws {
        try file.requireValid(json: options.json)
        let change = try withSchemas { try $0.importing(file.text.schema, applies: false) }
        try say(change, of: "development and \(file.name)")
    }

    private func say(_ change: SchemaChange, of what: String) throws {
        try Self.say(change.difference.changes.map(SchemaReport.Change.init), of: what, json: options.json)
    }

    static func say(_ changes: [SchemaReport.Change], of what: String, json: Bool) throws {
        let report = SchemaReport(isAccepted: true, isApplied: false, changes: changes)
        try report.say(changes.isEmpty ? "\(what) are the same" : report.counted, json: json)
    }

    func reset(asks: Bool) throws {
        try withSchemas { schemas in
            if asks {
                let warning = "This deletes all records of \(container) in development."
                try Terminal.confirm(warning, byTyping: container.name, called: "the container's name")
            }
            // Relays on a database notice a reset by themselves.
            var hold =
                DataFolder.database == nil
                ? try StoreHold([ContainerEnvironment(container, .development)], in: options.folder) : nil
            // Also after an error, which leaves the old records.
            let reset = Result { try schemas.resetDevelopment { UInt64.random(in: .min ... .max) } }
            hold.take()?.end()
            try reset.get()
        }
        try note("schema.reset", .development, container.name)
        if options.json {
            try Terminal.say(json: ["reset": true])
        } else {
            Terminal.tell("reset  \(container) development: no records, and production's schema")
        }
    }
}
