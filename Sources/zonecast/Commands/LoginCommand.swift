import ArgumentParser
import Foundation
import Records
import ZoneKit

/// `zonecast login`: saves where a relay is and who speaks to it.
struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Save a relay's address, a container and a user's token for later commands.",
        discussion: """
            The token is read from the first line of standard input, or asked for; the relay is asked whose it is. Commands \
            that speak to a relay take what they are not told from the profile: --profile, $ZONECAST_PROFILE, or "default".
            The file is ~/.config/zonecast/profiles.json, which only you may read.
            """
    )

    @Option(help: "The relay, such as https://sync.example.org.")
    var url: String
    @OptionGroup var home: HomeOptions
    @Option(help: "The container's API token; a relay with --dev needs none.")
    var apiToken: String?
    @Option(help: "The name to save it under.")
    var profile = Profile.standardName
    @Flag(help: "Answer with one line of JSON.")
    var json = false

    func validate() throws {
        guard profile.isEmpty || profile.contains(where: \.isWhitespace) else { return }
        throw ValidationError("--profile is a name on one line without blanks, such as default.")
    }

    func run() async throws {
        let token =
            isatty(STDIN_FILENO) == 1
            ? try Terminal.askPassword("Web auth token", isNew: false) : try Terminal.readPasswordLine("web auth token")
        let own = Profile(
            url: url,
            apiToken: apiToken,
            webToken: token,
            container: home.container.name,
            environment: home.environment.rawValue
        )
        let answer = try await RelayOptions.call("public/users/caller", "{}", home.home, own)
        guard let user = answer.text("userRecordName") else {
            throw CommandFailure(
                .notAllowed,
                "The relay does not say whose token this is. Get one: zonecast user sign-in EMAIL"
            )
        }
        try Profile.keep(own, as: profile)
        if json { return try Terminal.say(json: ["profile": profile, "userRecordName": user]) }
        Terminal.tell("saved  \(profile)  \(user) at \(url)")
    }
}

/// `zonecast logout`: forgets a profile; its sign-in goes on.
struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Forget a saved profile. Its token goes on until it ends: zonecast user sessions EMAIL --end"
    )

    @Option(help: "Which one.")
    var profile = Profile.standardName
    @Flag(help: "Answer with one line of JSON.")
    var json = false

    func run() async throws {
        guard try Profile.all()[profile] != nil else {
            throw CommandFailure(.failed, "There is no profile \(profile).")
        }
        try Profile.keep(nil, as: profile)
        if json { try Terminal.say(json: ["forgotten": profile]) } else { Terminal.tell("forgotten  \(profile)") }
    }
}
