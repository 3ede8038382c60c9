/// A line that the user types in the demo: a new note, a post, or a note's new title.
struct DemoInput: Equatable, Sendable {
    enum Outcome: Equatable, Sendable {
        case typing
        case submitted(String)
        case cancelled
    }

    /// The longest text, as in the browser demo.
    static let limit = 200

    var prompt: String
    var text = ""

    /// Applies a key: Return submits, Escape and Ctrl-C cancel, Backspace deletes, Ctrl-U clears.
    mutating func take(_ key: Character) -> Outcome {
        switch key {
        case "\r", "\n":
            let trimmed = text.drop { $0 == " " }
            return trimmed.isEmpty ? .cancelled : .submitted(String(trimmed))
        case DemoTerminal.escape, "\u{3}", "\u{4}": return .cancelled
        case "\u{8}", "\u{7F}": _ = text.popLast()
        case "\u{15}": text = ""
        case DemoTerminal.up, DemoTerminal.down, DemoTerminal.left, DemoTerminal.right: break
        default:
            let isControl = key.unicodeScalars.contains { $0.properties.generalCategory == .control }
            if !isControl, text.count < Self.limit { text.append(key) }
        }
        return .typing
    }
}
