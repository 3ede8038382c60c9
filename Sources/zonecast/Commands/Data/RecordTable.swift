import Foundation
import Wire

/// Prints records as a table or as JSON.
enum RecordTable {
    static func say(_ records: [JSONValue], json: Bool, empty: String) throws {
        if json { return records.forEach { Terminal.say($0.line) } }
        Terminal.say(
            table: try records.map(cells),
            heading: ["NAME", "TYPE", "TAG", "MODIFIED", "FIELDS"],
            empty: empty
        )
    }

    /// Returns one record as a line without column alignment.
    static func line(_ record: JSONValue) throws -> String {
        try cells(record).filter { !$0.isEmpty }.joined(separator: "  ").withoutControls
    }

    private static func cells(_ record: JSONValue) throws -> [String] {
        let name = record.text("recordName") ?? ""
        if (try? record["deleted"]?.bool()) == true {
            return [name, record.text("recordType") ?? "", "", "", "deleted"]
        }
        let fields = try record["fields"]?.members().map { "\($0.name)=\(shown($0.value))" } ?? []
        return [
            name, record.text("recordType") ?? "", record.text("recordChangeTag") ?? "", timestamp(record["modified"]),
            fields.joined(separator: " "),
        ]
    }

    private static func timestamp(_ stamp: JSONValue?) -> String {
        guard let time = try? stamp?["timestamp"]?.int64() else { return "" }
        return Date(timeIntervalSince1970: Double(time / 1000)).formatted(.iso8601)
    }

    /// Returns text as one line of at most 60 characters; other values as JSON.
    private static func shown(_ field: JSONValue) -> String {
        guard let value = field["value"] else { return "" }
        let text = (try? value.string()) ?? value.line
        let line = text.map { $0.isNewline ? " " : $0 }
        return line.count > 60 ? String(line.prefix(59)) + "…" : String(line)
    }

    /// Prints the outcome of each operation, then throws the first failure.
    static func say(outcomes: [JSONValue], json: Bool) throws {
        var failure: CommandFailure?
        for outcome in outcomes {
            let name = outcome.text("recordName") ?? "?"
            if json { Terminal.say(outcome.line) }
            guard let code = outcome.text("serverErrorCode") else {
                let isDeleted = (try? outcome["deleted"]?.bool()) == true
                if !json {
                    Terminal.tell(
                        isDeleted
                            ? "deleted  \(name)" : "saved    \(name)  tag \(outcome.text("recordChangeTag") ?? "")"
                    )
                }
                continue
            }
            if !json { Terminal.say("refused  \(name)  \(code)") }
            let exit: CommandExit = code == "CONFLICT" ? .conflict : code == "ACCESS_DENIED" ? .notAllowed : .failed
            failure = failure ?? CommandFailure(exit, "\(name): \(outcome.text("reason") ?? code)")
        }
        if let failure { throw failure }
    }
}
