import Foundation
import Logging

/// The format of log lines.
enum LogFormat: String, CaseIterable, Sendable {
    /// `2026-05-01T10:00:00.123Z info request method=GET status=200 …`: for people.
    case text
    /// One JSON object on a line: for programs.
    case json
}

/// Writes log lines to standard error, each with one call so that lines of different threads do not mix.
struct LogLines: LogHandler {
    var format: LogFormat
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]
    /// Writes one line; the line end is added.
    var write: @Sendable (String) -> Void = { Terminal.sayError($0) }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var facts = metadata.merging(event.metadata ?? [:]) { $1 }
        if let error = event.error { facts["error"] = "\(error)" }
        write(Self.line(at: Date(), event.level, "\(event.message)", facts, format))
    }

    static func line(
        at date: Date,
        _ level: Logger.Level,
        _ message: String,
        _ metadata: Logger.Metadata,
        _ format: LogFormat
    ) -> String {
        let time = date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        let facts = metadata.sorted { $0.key < $1.key }
        switch format {
        case .text:
            let words = facts.map { "\($0.key)=\(quoted("\($0.value)"))" }
            return ([time, level.rawValue, message] + words).joined(separator: " ")
        case .json:
            let start = [("time", json(time)), ("level", json(level.rawValue)), ("message", json(message))]
            let members = start + facts.map { ($0.key, json($0.value)) }
            return "{" + members.map { "\(json($0.0)):\($0.1)" }.joined(separator: ",") + "}"
        }
    }

    /// Returns a JSON number for a numeric value, else a JSON string.
    private static func json(_ value: Logger.MetadataValue) -> String {
        guard case .stringConvertible(let number) = value else { return json("\(value)") }
        switch number {
        case let number as any BinaryInteger: return "\(number)"
        case let number as Double where number.isFinite: return "\(number)"
        default: return json("\(number)")
        }
    }

    /// Returns the text, in quotes if it is not a single word.
    private static func quoted(_ text: String) -> String {
        text.isEmpty || text.contains { $0 == " " || $0 == "\"" || $0 == "=" || $0.isNewline } ? json(text) : text
    }

    /// Returns the text as a JSON string.
    private static func json(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\u{0}"..<"\u{20}": out += String(format: "\\u%04x", scalar.value)
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }
}
