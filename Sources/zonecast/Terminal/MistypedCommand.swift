import ArgumentParser

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

    var words: String {
        let meant = suggestion.map { " Did you mean: \(before) \($0)?" } ?? ""
        return "\"\(word)\" is not a command of \(before).\(meant) For all commands: \(before) --help"
    }
}
