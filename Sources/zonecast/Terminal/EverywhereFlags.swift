import Foundation

/// The flags that every command takes, wherever they stand on the line.
///
/// They are taken off before the rest is read: declared in each command they would have to be in every group of options,
/// once and only once.
struct EverywhereFlags: Equatable {
    /// Only what was asked for: no confirmations, hints, headings and progress.
    var isQuiet = false
    /// As with `NO_COLOR` in the environment.
    var hasNoColour = false

    private static let quiet = "--quiet"
    private static let noColour = "--no-color"

    /// What every command's help says of them, as lines of its options.
    private static func help(width: Int) -> String {
        HelpPage.option(
            quiet,
            "Print only what was asked for: no headings, hints and confirmations.",
            width: width
        ) + HelpPage.option(noColour, "Print without colour, as with NO_COLOR in the environment.", width: width)
    }

    /// Takes them out of the arguments; what stands behind `--` is not ours.
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

    /// A command's help with these among its options.
    static func added(to help: String, width: Int = HelpPage.width) -> String {
        guard let place = help.firstRange(of: "  --version ") ?? help.firstRange(of: "  -h, --help ") else {
            return help
        }
        return help[..<place.lowerBound] + Self.help(width: width) + help[place.lowerBound...]
    }
}
