import ArgumentParser
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
            // The library titles a group of commands "DATA SUBCOMMANDS:".
            if line.hasSuffix(" SUBCOMMANDS:"), !line.hasPrefix(" ") { return line.dropLast(13) + ":" }
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

/// The flags that every command accepts at any position.
///
/// They are removed before the arguments are parsed. Otherwise every command would have to declare them exactly once
/// among its option groups.
struct GlobalFlags: Equatable {
    /// Suppresses confirmations, hints, headings and progress.
    var isQuiet = false
    /// Reports the data folder and the requests that a command uses.
    var isVerbose = false
    /// Disables colour, as `NO_COLOR` in the environment does.
    var hasNoColour = false

    /// The help lines of these flags.
    private static func help(width: Int) -> String {
        HelpPage.option(
            "-q, --quiet",
            "Print only the requested output: no headings, hints and confirmations.",
            width: width
        )
            + HelpPage.option(
                "-v, --verbose",
                "Report the data folder and every request on standard error.",
                width: width
            )
            + HelpPage.option("-o, --output <format>", "json (as --json) or text.", width: width)
            + HelpPage.option("--no-color", "Print without colour, as if NO_COLOR were set.", width: width)
    }

    /// Removes the flags from the arguments before `--`; `-o json` becomes `--json`.
    static func take(from arguments: [String]) -> (flags: GlobalFlags, rest: [String]) {
        var flags = GlobalFlags()
        var rest: [String] = []
        var words = arguments[...]
        while let word = words.popFirst() {
            switch word {
            case "--": return (flags, rest + [word] + words)
            case "-q", "--quiet": flags.isQuiet = true
            case "-v", "--verbose": flags.isVerbose = true
            case "--no-color": flags.hasNoColour = true
            // Some commands have -o FILE.
            case "-o" where format(words.first) != nil, "--output" where format(words.first) != nil:
                rest += format(words.removeFirst()) ?? []
            default:
                let joined = ["-o=", "--output=", "-o"].first { word.hasPrefix($0) }
                rest += joined.flatMap { format(String(word.dropFirst($0.count))) } ?? [word]
            }
        }
        return (flags, rest)
    }

    /// Returns the arguments for an output format; `nil` if it is none.
    private static func format(_ name: String?) -> [String]? {
        name == "json" ? ["--json"] : name == "text" ? [] : nil
    }

    func apply() {
        if isQuiet { Terminal.setQuiet() }
        if isVerbose { Terminal.setVerbose() }
        if hasNoColour { setenv("NO_COLOR", "1", 1) }
    }

    /// Returns a command's help with these flags added to its options.
    static func added(to help: String, width: Int = HelpPage.width) -> String {
        guard let place = help.firstRange(of: "  --version ") ?? help.firstRange(of: "  -h, --help ") else {
            return help
        }
        return help[..<place.lowerBound] + Self.help(width: width) + help[place.lowerBound...]
    }
}

/// A word on the command line that is not a command although one is expected there.
struct MistypedCommand: Equatable {
    /// The commands before it, such as `zonecast user`.
    var before: String
    var word: String
    /// The closest command name, if any is near.
    var suggestion: String?

    /// Returns the first such word; `nil` if all words are commands or arguments of a command.
    static func first(in arguments: [String]) -> MistypedCommand? {
        var commands: [any ParsableCommand.Type] = Zonecast.configuration.subcommands
        var path = ["zonecast"]
        for word in arguments {
            guard !commands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            let names = commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
            let next = commands.first { $0._commandName == word || $0.configuration.aliases.contains(word) }
            guard let next else {
                return MistypedCommand(
                    before: path.joined(separator: " "),
                    word: word,
                    suggestion: ConfigurationKeys.suggestion(for: word, among: names)
                )
            }
            commands = next.configuration.subcommands
            path.append(word)
        }
        return nil
    }

    /// Returns the command that the arguments begin with, such as `zonecast user create`.
    static func command(in arguments: [String]) -> String {
        var commands: [any ParsableCommand.Type] = Zonecast.configuration.subcommands
        var path = ["zonecast"]
        for word in arguments {
            guard let next = commands.first(where: { $0._commandName == word }) else { break }
            commands = next.configuration.subcommands
            path.append(word)
        }
        return path.joined(separator: " ")
    }

    var words: String {
        let meant = suggestion.map { " Did you mean: \(before) \($0)?" } ?? ""
        return "\"\(word)\" is not a command of \(before).\(meant) For all commands: \(before) --help"
    }
}
