import ArgumentParser

/// The command: a relay, and what people do with one.
@main
struct Zonecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "zonecast", abstract: "A sync relay of your own.")
}
