import ArgumentParser

/// `zonecast version`: same as `--version`.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Show the version.",
        shouldDisplay: false
    )

    @Flag(help: "Print one line of JSON.")
    var json = false

    func run() throws {
        if json { try Terminal.say(json: ["version": Zonecast.version]) } else { Terminal.say(Zonecast.version) }
    }
}

/// `zonecast completions`: prints a shell's completion script.
struct CompletionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completions",
        abstract: "Print a shell's completion script.",
        discussion: """
            bash  zonecast completions bash > /etc/bash_completion.d/zonecast
            zsh   zonecast completions zsh > /usr/local/share/zsh/site-functions/_zonecast
            fish  zonecast completions fish > ~/.config/fish/completions/zonecast.fish
            """,
        shouldDisplay: false
    )

    enum Shell: String, CaseIterable, ExpressibleByArgument {
        case bash, zsh, fish
    }

    @Argument(help: "bash, zsh or fish.")
    var shell: Shell

    func run() {
        let known: CompletionShell =
            switch shell {
            case .bash: .bash
            case .zsh: .zsh
            case .fish: .fish
            }
        Terminal.say(Zonecast.completionScript(for: known))
    }
}
