import Foundation
import Records
import RelayCore
import Wire

/// A schema's text, with its name for diagnostics.
struct SchemaFile {
    let name: String
    let text: SchemaText
    /// The unparsed text.
    let source: String

    /// Reads a file; `-` is standard input.
    init(reading path: String) throws {
        guard let source = InputFile.text(path) else {
            throw CommandFailure(.failed, "\(path) cannot be read. Name the schema's text with --file.")
        }
        name = path == "-" ? "standard input" : path
        self.source = source
        text = SchemaText(parsing: source)
    }

    /// The errors and warnings of the text itself.
    var reported: [SchemaReport.Issue] {
        text.issues.map { issue in
            .init(
                line: issue.position.line,
                column: issue.position.column,
                isWarning: issue.isWarning,
                message: issue.message,
                shown: issue.line(inFile: name)
            )
        }
    }

    /// Returns the reasons that prevent the import, with positions where the elements are declared.
    func reported(_ violations: [SchemaChange.Violation]) -> [SchemaReport.Issue] {
        violations.map { violation in
            let message = "\(violation.element.sentenceName) \(violation.reason)"
            guard let position = text.positions[violation.element] else {
                return .init(message: message, shown: "\(name): \(message)")
            }
            let issue = SchemaIssue(at: position, message)
            return .init(
                line: position.line,
                column: position.column,
                message: message,
                shown: issue.line(inFile: name)
            )
        }
    }

    /// Throws if the text has errors.
    func requireValid(json: Bool) throws {
        guard !text.isValid else { return }
        try SchemaReport(isAccepted: false, isApplied: false, issues: reported).refuse("The schema", json: json)
    }
}

/// The output of a command that checks or changes a schema, as lines or as one JSON object.
struct SchemaReport: Encodable {
    struct Issue: Encodable {
        var line: Int?
        var column: Int?
        var isWarning = false
        var message: String
        /// The line shown to people.
        var shown: String

        private enum CodingKeys: String, CodingKey { case line, column, isWarning = "warning", message }
    }

    struct Change: Codable {
        var kind: String
        var recordType: String?
        var field: String?
        var role: String?
        var before: String?
        var after: String?
    }

    var isAccepted: Bool
    var isApplied: Bool
    var changes: [Change] = []
    var issues: [Issue] = []

    private enum CodingKeys: String, CodingKey {
        case isAccepted = "accepted", isApplied = "applied", changes, issues
    }

    /// The number of changes, like `1 change` or `2 changes`.
    var counted: String { changes.count == 1 ? "1 change" : "\(changes.count) changes" }

    /// Prints warnings, changes and a conclusion.
    func say(_ conclusion: String, json: Bool) throws {
        if json { return try Terminal.say(json: self) }
        for issue in issues { Terminal.sayError(issue.shown) }
        for change in changes { Terminal.say(change.line) }
        Terminal.tell(conclusion)
    }

    /// A change of a schema that a command was asked for.
    enum Operation {
        case schemaImport, promotion

        fileprivate var subject: String {
            switch self {
            case .schemaImport: "The schema"
            case .promotion: "The promotion"
            }
        }

        fileprivate func conclusion(applies: Bool) -> String {
            switch self {
            case .schemaImport: applies ? "imported into development" : "valid"
            case .promotion: applies ? "promoted to production" : "would be promoted to production"
            }
        }
    }

    /// Prints the outcome of `operation` after `note`, which records an applied change; throws if it was refused.
    func conclude(_ operation: Operation, applies: Bool, json: Bool, note: () throws -> Void = {}) throws {
        guard isAccepted else { try refuse(operation.subject, json: json) }
        if applies { try note() }
        try say("\(operation.conclusion(applies: applies)), \(counted)", json: json)
    }

    /// Prints every issue and throws.
    func refuse(_ what: String, json: Bool) throws -> Never {
        if json { try Terminal.say(json: self) } else { for issue in issues { Terminal.sayError(issue.shown) } }
        let count = issues.count { !$0.isWarning }
        throw CommandFailure(
            .failed,
            "\(what) was refused as a whole, for \(count == 1 ? "1 reason" : "\(count) reasons"). Nothing was changed."
        )
    }
}

extension SchemaReport {
    init(_ change: SchemaChange, applies: Bool, issues: [Issue]) {
        self.init(
            isAccepted: change.isAllowed,
            isApplied: applies && change.isAllowed,
            changes: change.difference.changes.map(Change.init),
            issues: issues
        )
    }
}

extension SchemaReport.Change {
    init(_ change: SchemaDifference.Change) {
        kind = change.kind.rawValue
        (recordType, field, role) = change.element.names
        before = change.before.isEmpty ? nil : change.before
        after = change.after.isEmpty ? nil : change.after
    }

    /// A line like `+ field  Note.title  STRING QUERYABLE`.
    fileprivate var line: String {
        let kind = SchemaDifference.Kind(rawValue: kind)
        let name =
            switch (recordType, field, role) {
            case (let type?, let field?, _): "\(type).\(field)"
            case (let type?, nil, let role?): "\(type) to \(role)"
            default: recordType ?? role ?? ""
            }
        let values = [before, after].compactMap { $0 }.joined(separator: " -> ")
        let line = "\(kind?.sign ?? "~") \(kind?.noun ?? "\(self.kind)  ")\(name)"
        return values.isEmpty ? line : "\(line)  \(values)"
    }
}

extension SchemaDifference.Kind {
    /// Padded to equal width.
    fileprivate var noun: String {
        switch self {
        case .addRole, .removeRole: "role         "
        case .addType, .removeType: "record type  "
        case .addField, .removeField, .changeField: "field        "
        case .addIndex, .removeIndex: "index        "
        case .addRight, .removeRight: "rights       "
        }
    }
}
