import Foundation

/// Help texts, wrapped to the terminal's width.
///
/// The argument library wraps everything except the usage line, which terminals would break within words.
enum HelpPage {
    /// The column where the descriptions of options begin.
    private static let column = 26
    /// The minimum width for descriptions.
    private static let narrowest = 40

    /// The width: `COLUMNS`, else the terminal's, else 80.
    static var width: Int {
        let set = ProcessInfo.processInfo.environment["COLUMNS"].flatMap { Int($0) }
        return max(narrowest, set ?? DemoTerminal.size.width)
    }

    /// Returns a help or usage error text with its usage line wrapped.
    static func laidOut(_ text: String, width: Int) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let start = line.prefix(7)
            guard ["USAGE: ", "Usage: "].contains(start) else { return String(line) }
            return wrapped(groups(of: line.dropFirst(start.count)), behind: String(start), width: width)
        }
        .joined(separator: "\n")
    }

    /// Returns an option with its description, as lines of a help text.
    static func option(_ name: String, _ words: String, width: Int) -> String {
        wrapped(words.split(separator: " "), behind: "  \(name)".filled(to: column), width: width) + "\n"
    }

    /// Joins parts into lines that are indented to the first part.
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

    /// Splits text into words, keeping bracketed groups such as `[--data <dir>]` together.
    private static func groups(of text: Substring) -> [Substring] {
        var depth = 0
        return text.split { character in
            depth += character == "[" ? 1 : character == "]" ? -1 : 0
            return character == " " && depth == 0
        }
    }
}
