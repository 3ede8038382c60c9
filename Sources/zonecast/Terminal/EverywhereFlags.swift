import Foundation

/// The flags that every command accepts at any position.
///
/// They are removed before the arguments are parsed. Otherwise every command would have to declare them exactly once
/// among its option groups.
struct EverywhereFlags: Equatable {
    /// Suppresses confirmations, hints, headings and progress.
    var isQuiet = false
    /// Disables colour, as `NO_COLOR` in the environment does.
    var hasNoColour = false

    private static let quiet = "--quiet"
    private static let noColour = "--no-color"

    /// The help lines of these flags.
    private static func help(width: Int) -> String {
        HelpPage.option(
            quiet,
            "Print only the requested output: no headings, hints and confirmations.",
            width: width
        ) + HelpPage.option(noColour, "Print without colour, as if NO_COLOR were set.", width: width)
    }

    /// Removes the flags from the arguments before `--`.
    static func take(from arguments: [String]) -> (flags: EverywhereFlags, rest: [String]) {
        var flags = EverywhereFlags()
        let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
        let rest = arguments[..<end].filter { argument in
            if argument == quiet { flags.isQuiet = true }
            if argument == noColour { flags.hasNoColour = true }
            return argument != quiet && argument != noColour
        }
        return (flags, rest + arguments[end...])
    }

    func apply() {
        if isQuiet { Terminal.beQuiet() }
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
