import Foundation
import Records
import RelayCore
import Wire

/// A schema's text with its name in diagnostics.
struct SchemaFile {
    let name: String
    let text: SchemaText
    /// As it was read.
    let source: String

    /// `-` reads standard input.
    init(reading path: String) throws {
        let data =
            path == "-" ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: path)
        guard let data else {
            throw CommandFailure(.failed, "\(path) cannot be read. Name the schema's text with --file.")
        }
        name = path == "-" ? "standard input" : path
        source = String(decoding: data, as: UTF8.self)
        text = SchemaText(parsing: source)
    }

    /// What is wrong with the text itself.
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

    /// What stands in the way of its import; with the place where the element is declared, if it is.
    func reported(_ offences: [SchemaChange.Offence]) -> [SchemaReport.Issue] {
        offences.map { offence in
            let message = "\(offence.element.sentenceName) \(offence.reason)"
            guard let position = text.positions[offence.element] else {
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

    /// Ends the command where the text has errors.
    func requireValid(json: Bool) throws {
        guard !text.isValid else { return }
        try SchemaReport(isAccepted: false, isApplied: false, issues: reported).refuse("The schema", json: json)
    }
}

/// How a command answers that checks or changes a schema: lines for a person, one object for a script.
struct SchemaReport: Encodable {
    struct Issue: Encodable {
        var line: Int?
        var column: Int?
        var isWarning = false
        var message: String
        /// As a person is shown it.
        var shown: String

        private enum CodingKeys: String, CodingKey { case line, column, isWarning = "warning", message }
    }

    struct Change: Encodable {
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
    private var lines: [String] = []

    private enum CodingKeys: String, CodingKey {
        case isAccepted = "accepted", isApplied = "applied", changes, issues
    }

    init(
        isAccepted: Bool,
        isApplied: Bool,
        _ difference: SchemaDifference? = nil,
        issues: [Issue] = []
    ) {
        self.isAccepted = isAccepted
        self.isApplied = isApplied
        self.issues = issues
        for change in difference?.changes ?? [] {
            changes.append(Change(change))
            lines.append(change.line)
        }
    }

    /// The good end: warnings, changes, and a line that says what has been done.
    func say(_ conclusion: String, json: Bool) throws {
        if json { return try Terminal.say(json: self) }
        for issue in issues { Terminal.complain(issue.shown) }
        for line in lines { Terminal.say(line) }
        Terminal.tell(conclusion)
    }

    /// The bad end: every issue, and that nothing was changed.
    func refuse(_ what: String, json: Bool) throws -> Never {
        if json { try Terminal.say(json: self) } else { for issue in issues { Terminal.complain(issue.shown) } }
        let count = issues.count { !$0.isWarning }
        throw CommandFailure(
            .failed,
            "\(what) was refused as a whole, for \(count == 1 ? "1 reason" : "\(count) reasons"). Nothing was changed."
        )
    }
}

extension SchemaReport.Change {
    init(_ change: SchemaDifference.Change) {
        kind = change.kind.rawValue
        switch change.element {
        case .role(let name): role = name
        case .type(let name): recordType = name
        case .field(let type, let name): (recordType, field) = (type, name)
        case .grant(let type, let name): (recordType, role) = (type, name)
        }
        before = change.before.isEmpty ? nil : change.before
        after = change.after.isEmpty ? nil : change.after
    }
}

extension SchemaDifference.Change {
    /// `+ field  Note.title  STRING QUERYABLE`.
    fileprivate var line: String {
        let name =
            switch element {
            case .role(let name), .type(let name): name
            case .field(let type, let name): "\(type).\(name)"
            case .grant(let type, let role): "\(type) to \(role)"
            }
        let values = [before, after].filter { !$0.isEmpty }.joined(separator: " -> ")
        let line = "\(kind.sign) \(kind.noun)\(name)"
        return values.isEmpty ? line : "\(line)  \(values)"
    }
}

extension SchemaDifference.Kind {
    /// As wide as the widest.
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
