import Foundation

/// What commands say of themselves, laid out for a terminal's width.
///
/// The library does it for everything but the usage, which it leaves as one line that a terminal breaks within words.
enum HelpPage {
    /// Where the options' explanations begin.
    private static let column = 26
    /// Narrower than this there is no room for them.
    private static let narrowest = 40

    /// As the person has set it, as the terminal is, or 80.
    static var width: Int {
        let set = ProcessInfo.processInfo.environment["COLUMNS"].flatMap { Int($0) }
        return max(narrowest, set ?? DemoTerminal.size.width)
    }

    /// A help text, or what is said of wrong usage.
    static func laidOut(_ text: String, width: Int) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let start = line.prefix(7)
            guard ["USAGE: ", "Usage: "].contains(start) else { return String(line) }
            return wrapped(groups(of: line.dropFirst(start.count)), behind: String(start), width: width)
        }
        .joined(separator: "\n")
    }

    /// An option with its explanation, as lines of a command's options.
    static func option(_ name: String, _ words: String, width: Int) -> String {
        wrapped(words.split(separator: " "), behind: "  \(name)".filled(to: column), width: width) + "\n"
    }

    /// Parts as lines, all of which begin below the first part.
    private static func wrapped(_ parts: [Substring], behind start: String, width: Int) -> String {
        let indent = String(repeating: " ", count: start.count)
        var (lines, line) = ([String](), start)
        for part in parts {
            if line.count > indent.count, line.count + 1 + part.count > width {
                lines.append(line)
                line = indent
            }
            line += line.count > indent.count ? " \(part)" : part
        }
        return (lines + [line]).joined(separator: "\n")
    }

    /// Words, those in brackets together: `[--data <dir>]`.
    private static func groups(of text: Substring) -> [Substring] {
        var depth = 0
        return text.split { character in
            depth += character == "[" ? 1 : character == "]" ? -1 : 0
            return character == " " && depth == 0
        }
    }
}
