import ArgumentParser

/// A word on the command line where a command should stand, and is none.
struct MistypedCommand: Equatable {
    /// The commands before it, such as `zonecast user`.
    var before: String
    var word: String
    /// What was meant, if one is near.
    var suggestion: String?

    /// The first such word of a line; `nil` where all are commands, or the words are a command's own arguments.
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
        return "\"\(word)\" is not a command of \(before).\(meant) All of them: \(before) --help"
    }
}
