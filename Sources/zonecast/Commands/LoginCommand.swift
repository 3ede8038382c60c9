import ArgumentParser
import Foundation
import Records
import ZoneKit

/// `zonecast login`: saves a relay's address and credentials.
struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Save a relay's address, a container and a user's token for later commands.",
        discussion: """
            The token is read from the first line of standard input or a prompt, and checked with the relay. Commands that \
            call a relay take missing options from the profile: --profile, $ZONECAST_PROFILE, or "default".
            The file is ~/.config/zonecast/profiles.json, which only you may read.
            """
    )

    @Option(help: "The relay, such as https://sync.example.org.")
    var url: String
    @OptionGroup var home: HomeOptions
    @Option(help: "The container's API token; a relay with --dev needs none.")
    var apiToken: String?
    @Option(help: "The profile's name.")
    var profile = Profile.standardName
    @Flag(help: "Print one line of JSON.")
    var json = false

    func validate() throws {
        guard profile.isEmpty || profile.contains(where: \.isWhitespace) else { return }
        throw ValidationError("--profile is a name without spaces, such as default.")
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
                "The relay does not accept this token for a user. Get one: zonecast user sign-in EMAIL"
            )
        }
        try Profile.save(own, as: profile)
        if json { return try Terminal.say(json: ["profile": profile, "userRecordName": user]) }
        Terminal.tell("saved  \(profile)  \(user) at \(url)")
    }
}

/// `zonecast logout`: deletes a saved profile; its session stays valid.
struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract:
            "Delete a saved profile. Its token stays valid; to revoke it: zonecast token revoke --kind session --user EMAIL"
    )

    @Option(help: "The profile's name.")
    var profile = Profile.standardName
    @Flag(help: "Print one line of JSON.")
    var json = false

    func run() async throws {
        guard try Profile.all()[profile] != nil else {
            throw CommandFailure(.failed, "There is no profile \(profile).")
        }
        try Profile.save(nil, as: profile)
        if json { try Terminal.say(json: ["forgotten": profile]) } else { Terminal.tell("deleted  \(profile)") }
    }
}
