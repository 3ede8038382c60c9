import Crypto
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// Flags of every command, and errors that every command reports in the same way.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CommonCommandTests {
    private let folder = ScratchFolder()
    private let container = "iCloud.org.example.notes"

    @Test func commonFlagsAreAcceptedAnywhereBeforeTheDoubleDash() {
        let (flags, rest) = GlobalFlags.take(from: ["--quiet", "user", "--no-color", "list", "--", "--quiet"])
        #expect(flags == GlobalFlags(isQuiet: true, hasNoColour: true))
        #expect(rest == ["user", "list", "--", "--quiet"])
        #expect(GlobalFlags.take(from: ["demo", "--quick"]).flags == GlobalFlags())
        #expect(GlobalFlags.take(from: ["-q", "-v", "status"]).flags == GlobalFlags(isQuiet: true, isVerbose: true))
    }

    @Test(arguments: [
        (["user", "list", "-o", "json"], ["user", "list", "--json"]), (["status", "-ojson"], ["status", "--json"]),
        (["status", "--output=json"], ["status", "--json"]), (["status", "--output", "text"], ["status"]),
        (["schema", "export", "-o", "notes.ckdb"], ["schema", "export", "-o", "notes.ckdb"]),
        (["schema", "export", "--output-file", "a"], ["schema", "export", "--output-file", "a"]),
        (["record", "create", "A", "--", "-o", "json"], ["record", "create", "A", "--", "-o", "json"]),
    ])
    func theOutputFormatSelectsJSON(given: [String], rest: [String]) {
        #expect(GlobalFlags.take(from: given).rest == rest)
    }

    /// An error of the options has the form of every other error.
    @Test(arguments: [
        (
            ["user", "list", "--nothing"],
            "zonecast: Unknown option '--nothing'. For its options: zonecast user list --help\n"
        ),
        (
            ["user", "show"],
            "zonecast: Missing expected argument '<email>'. For its options: zonecast user show --help\n"
        ),
        (
            ["token", "revoke"],
            "zonecast: Name the credential by its id. See: zonecast token list. For its options: zonecast token revoke --help\n"
        ),
    ])
    func wrongOptionsAreReportedInOneLine(arguments: [String], words: String) throws {
        let run = try Command.run(arguments)
        #expect(run.status == 2 && run.errors == words, "\(run.errors)")
    }

    @Test func theCredentialsOfTheSDKAreHonoured() throws {
        let data = ["--data", folder.path]
        #expect(try Command.run(["container", "create", container] + data).status == 0)
        let create = ["user", "create", "ada@example.org", "--password-stdin"]
        #expect(try Command.run(create + data, input: "correct horse\n").status == 0)
        struct Token: Decodable { var apiToken: String }
        let token = try Command.run(["token", "create", "-c", container, "--json"] + data).json(Token.self).apiToken
        let relay = try RelayProcess(folder: folder.path, [])
        let place = ["ZONECAST_URL": "http://127.0.0.1:\(relay.port)", "ZONECAST_CONTAINER": container]
        var account = place.merging(["ZONECAST_EMAIL": "ada@example.org", "ZONECAST_PASSWORD": "correct horse"]) { $1 }
        account["ZONECAST_API_TOKEN"] = token
        account["ZONECAST_DEVICE_ID"] = "ada-desk"
        // As for the SDK, an account is used before a token.
        account["ZONECAST_WEB_TOKEN"] = "nonsense"
        let zone = try Command.run(["zone", "create", "Notes"], environment: account)
        #expect(zone.status == 0, "\(zone.errors)")
        #expect(try Command.run(["zone", "list"], environment: account).output.contains("Notes"))
        // A server key adds no record type.
        let note = ["record", "create", "Note", "title=x", "--database", "public"]
        #expect(try Command.run(note, environment: account).status == 0)
        account["ZONECAST_PASSWORD"] = "wrong"
        let wrong = try Command.run(["zone", "list"], environment: account)
        #expect(wrong.status == 4 && wrong.errors.contains("ZONECAST_PASSWORD"), "\(wrong.errors)")

        let (pem, file) = (P256.Signing.PrivateKey(), folder.path + "/eckey.pem")
        try pem.pemRepresentation.write(toFile: file, atomically: true, encoding: .utf8)
        try pem.publicKey.pemRepresentation.write(toFile: file + ".pub", atomically: true, encoding: .utf8)
        struct Key: Decodable { var keyID: String }
        let kind = ["token", "create", "--kind", "server", "--public-key", file + ".pub", "-c", container, "--json"]
        let id = try Command.run(kind + data).json(Key.self).keyID
        let key = place.merging(["ZONECAST_KEY_ID": id, "ZONECAST_KEY_FILE": file]) { $1 }
        let made = try Command.run(note, environment: key)
        #expect(made.status == 0, "\(made.errors)")
        #expect(
            try Command.run(["record", "query", "Note"], environment: key).status == 4,
            "a key has no private database"
        )
        let broken = key.merging(["ZONECAST_KEY_FILE": file + ".none"]) { $1 }
        let unread = try Command.run(note, environment: broken)
        #expect(unread.status == 2 && unread.errors.contains("ZONECAST_KEY_FILE"), "\(unread.errors)")

        // The SDK's file, instead of variables.
        let config = folder.path + "/sdk.json"
        try JSONEncoder().encode(key).write(to: URL(fileURLWithPath: config))
        let named = try Command.run(note, environment: ["ZONECAST_CONFIG": config])
        #expect(named.status == 0, "\(named.errors)")
        #expect(relay.stop().status == 0)
    }

    @Test func theVariablesOfTheSDKAreHonoured() throws {
        let relay = try RelayProcess(folder: folder.path)
        let variables = [
            "ZONECAST_URL": "http://127.0.0.1:\(relay.port)", "ZONECAST_CONTAINER": container,
            "ZONECAST_DEV_USER": "ada",
        ]
        let made = try Command.run(["zone", "create", "Notes", "-v"], environment: variables)
        #expect(made.status == 0 && made.output == "created  Notes\n", "\(made.errors)")
        #expect(made.errors.contains("/private/zones/modify 200 in "), "\(made.errors)")
        let token = try Command.run(["token", "create", "--data", folder.path, "-q"], environment: variables)
        #expect(token.status == 0, "\(token.errors)")
        let production = variables.merging(["ZONECAST_ENVIRONMENT": "production"]) { $1 }
        #expect(try !Command.run(["zone", "list"], environment: production).output.contains("Notes"))

        // A wrong zone, type or container suggests a near one.
        let note = ["record", "create", "Note", "title=x", "--database", "public"]
        #expect(try Command.run(note, environment: variables).status == 0)
        let zone = try Command.run(["record", "query", "Note", "--zone", "Nots"], environment: variables)
        #expect(zone.status == 1 && zone.errors.contains("Did you mean Notes?"), "\(zone.errors)")
        let type = try Command.run(["record", "query", "Noet", "--database", "public"], environment: variables)
        #expect(type.status == 1 && type.errors.contains("Did you mean Note?"), "\(type.errors)")
        let near = try Command.run(["container", "show", "iCloud.org.example.note", "--data", folder.path])
        #expect(near.status == 1 && near.errors.contains("Did you mean \(container)?"), "\(near.errors)")
        #expect(relay.stop().status == 0)
    }

    @Test func statusFitsOnOneScreen() throws {
        struct Status: Decodable {
            var isRunning: Bool, containers: Int, users: Int, problems: [String], address: String?
        }
        let data = ["--data", folder.path]
        #expect(try Command.run(["status"] + data).status == 1, "There is no relay data.")
        #expect(try Command.run(["container", "create", container] + data).status == 0)
        let stopped = try Command.run(["status"] + data)
        #expect(stopped.status == 0 && stopped.output.contains("no relay is running"), "\(stopped.errors)")
        #expect(stopped.output.split(separator: "\n").count < 20)
        let relay = try RelayProcess(folder: folder.path)
        let status = try Command.run(["status", "-o", "json"] + data).json(Status.self)
        #expect(status.isRunning && status.containers == 1 && status.users == 0)
        #expect(status.address?.hasSuffix(":\(relay.port)") == true)
        #expect(relay.stop().status == 0)
        let metrics = "# TYPE zonecast_connections gauge\nzonecast_connections 3\nzonecast_connections_max 9\n"
        #expect(StatusCommand.sum("zonecast_connections", in: metrics) == 3)
        #expect(StatusCommand.sum("zonecast_users", in: metrics) == nil)
    }

    @Test func everyHelpListsTheCommonFlags() throws {
        for command in [[], ["serve"], ["token", "create"], ["backup"]] {
            let help = try Command.run(command + ["--help"])
            #expect(help.status == 0)
            for flag in ["  -q, --quiet  ", "  -o, --output <format>  ", "  --no-color  "] {
                #expect(help.output.contains(flag), "\(command)")
            }
        }
    }

    private struct Refusal: Decodable {
        struct Error: Decodable { var code: String, reason: String }
        var error: Error
    }

    @Test func errorsAreJSONWithTheJSONFlag() throws {
        let data = ["--data", folder.path, "--json"]
        let lost = try Command.run(["user", "list"] + data)
        #expect(try lost.status == 1 && lost.json(Refusal.self).error.code == "FAILED")
        #expect(try lost.errors == "zonecast: \(lost.json(Refusal.self).error.reason)\n")
        let usage = try Command.run(["user", "list", "--nothing"] + data)
        #expect(try usage.status == 2 && usage.json(Refusal.self).error.code == "USAGE")
        let place = ["--url", "http://127.0.0.1:9", "--container", container, "--json"]
        let away = try Command.run(["zone", "list"] + place)
        #expect(try away.status == 3 && away.json(Refusal.self).error.code == "UNREACHABLE")
        let relay = try RelayProcess(folder: folder.path)
        let here = [
            "--url", "http://127.0.0.1:\(relay.port)", "--container", container, "--web-token", "dev-a", "--json",
        ]
        let zone = try Command.run(["record", "changes", "--zone", "None"] + here)
        #expect(try zone.status == 1 && zone.json(Refusal.self).error.code == "ZONE_NOT_FOUND", "\(zone.output)")
        #expect(relay.stop().status == 0)
    }

    @Test func commandsUseTheDataFolderOfTheConfiguration() throws {
        let file = folder.path + "-settings.yaml"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try "# One's own.\ndata: '\(folder.path)' # there\n".write(toFile: file, atomically: true, encoding: .utf8)
        let settings = ["ZONECAST_CONFIG": file]
        let added = try Command.run(
            ["user", "create", "ada@example.org", "--password-stdin"],
            input: "long enough",
            environment: settings
        )
        #expect(added.status == 0, "\(added.errors)")
        #expect(FileManager.default.fileExists(atPath: folder.path + "/relay.sqlite"))
        let listed = try Command.run(["user", "list", "--json"], environment: settings)
        #expect(listed.output.contains("ada@example.org"))
        let elsewhere = try Command.run(["user", "list"], environment: ["ZONECAST_DATA": folder.path + "-none"])
        #expect(elsewhere.status == 1 && elsewhere.errors.contains("-none"))
    }

    @Test func aProfileStoresItsContainer() throws {
        let relay = try RelayProcess(folder: folder.path)
        let place = ["XDG_CONFIG_HOME": folder.path + "/own"]
        let arguments = ["login", "--url", "http://127.0.0.1:\(relay.port)", "--container", container]
        let login = try Command.run(arguments, input: "dev-ada\n", environment: place)
        #expect(login.status == 0, "\(login.errors)")
        let zones = try Command.run(["zone", "list"], environment: place)
        #expect(zones.status == 0 && zones.output.contains("_defaultZone"), "\(zones.errors)")
        let nowhere = try Command.run(["zone", "list"], environment: ["XDG_CONFIG_HOME": folder.path + "/none"])
        #expect(nowhere.status == 2 && nowhere.errors.contains("--container"))
        #expect(relay.stop().status == 0)
    }

    @Test func quietPrintsOnlyTheRequestedOutput() throws {
        let data = ["--data", folder.path]
        let made = try Command.run(["container", "create", container, "--quiet"] + data)
        #expect(made.status == 0 && made.output.isEmpty && made.errors.isEmpty)
        let token = try Command.run(["token", "create", "--quiet", "--container", container] + data)
        #expect(token.output.dropLast().allSatisfy { $0.isHexDigit } && token.output.count == 65, "\(token.output)")
        let list = try Command.run(["--quiet", "container", "list"] + data)
        #expect(list.output.hasPrefix(container) && list.output.split(separator: "\n").count == 1)
        let none = try Command.run(["user", "list", "--quiet"] + data)
        #expect(none.status == 0 && none.output.isEmpty)
        #expect(try Command.run(["user", "list"] + data).output.hasPrefix("There are no users"))
        let backup = try Command.run(["backup", "create", "--quiet"] + data)
        #expect(FileManager.default.fileExists(atPath: String(backup.output.dropLast())), "\(backup.output)")
        // Errors are still reported.
        let again = try Command.run(["container", "create", container, "--quiet"] + data)
        #expect(again.status == 5 && !again.errors.isEmpty)
    }

    @Test func invalidAddressesAndProfileNamesAreRefused() throws {
        let data = ["--data", folder.path]
        #expect(try Command.run(["container", "create", container] + data).status == 0)
        for url in ["foo", "ftp://example.org", "https://"] {
            let link = try Command.run(["user", "operator", "create", "--url", url] + data)
            #expect(link.status == 2 && link.output.isEmpty && link.errors.contains("is not an address"))
        }
        for name in ["", "a\nb"] {
            let place = ["--url", "http://127.0.0.1:9", "--container", container]
            let login = try Command.run(["login", "--profile", name] + place, input: "t\n")
            #expect(login.status == 2, "\(login.errors)")
        }
        let issuer = [
            "user", "issuer", "create", "--container", container, "--issuer", "i", "--audience", "a", "--keys-url",
            "https://h:99999/",
        ]
        #expect(try Command.run(issuer + data).status == 2)
    }

    @Test func completionsOfferFilesAndFolders() throws {
        let script = try Command.run(["completions", "bash"]).output
        let lines = script.split(separator: "\n")
        #expect(lines.contains { $0.hasSuffix(" -f") } && lines.contains { $0.hasSuffix(" -d") })
    }

    @Test func aFolderInPlaceOfTheProfileFileIsReported() throws {
        try FileManager.default.createDirectory(
            atPath: folder.path + "/zonecast/profiles.json",
            withIntermediateDirectories: true
        )
        let run = try Command.run(
            ["zone", "list", "--container", container, "--profile", "home"],
            environment: ["XDG_CONFIG_HOME": folder.path]
        )
        #expect(run.status == 1 && run.errors.contains("is not a readable profile file"), "\(run.errors)")
    }

    @Test(arguments: [
        (["serv"], "zonecast: \"serv\" is not a command of zonecast. Did you mean: zonecast serve?"),
        (["user", "lst"], "zonecast: \"lst\" is not a command of zonecast user. Did you mean: zonecast user list?"),
        (
            ["conteiner", "list"],
            "zonecast: \"conteiner\" is not a command of zonecast. Did you mean: zonecast container?"
        ),
        (["xylophone"], "zonecast: \"xylophone\" is not a command of zonecast. For all commands: zonecast --help"),
        (
            ["token", "revok", "x"],
            "zonecast: \"revok\" is not a command of zonecast token. Did you mean: zonecast token revoke?"
        ),
    ])
    func aMistypedCommandIsReportedWithASuggestion(arguments: [String], words: String) throws {
        let run = try Command.run(arguments)
        #expect(run.status == 2 && run.output.isEmpty)
        #expect(run.errors.hasPrefix(words), "\(run.errors)")
        #expect(run.errors.split(separator: "\n").count == 1)
    }

    @Test func helpForAnUnknownCommandIsAnError() throws {
        let none = try Command.run(["help", "usr"])
        #expect(none.status == 2 && none.errors.contains("Did you mean: zonecast user?"), "\(none.errors)")
        let some = try Command.run(["help", "user", "list"])
        #expect(some.status == 0 && some.output.contains("USAGE: zonecast user list"))
    }

    /// Errors are one sentence with the system's reason and advice, without internals of libraries.
    @Test(arguments: [
        (["serve", "--data", "/proc/none"], 1), (["container", "create", "iCloud.a.b", "--data", "/proc/none"], 1),
        (["init", "--yes", "--domain", "a.example", "--files", "/proc/none"], 1),
        (["login", "--url", "http://127.0.0.1:1", "--container", "iCloud.a.b"], 2),
        (["log", "show", "--file", "/none"], 1),
    ])
    func systemErrorsAreReportedInOneSentence(arguments: [String], status: Int) throws {
        let run = try Command.run(arguments, environment: ["ZONECAST_DATA": folder.path])
        #expect(Int(run.status) == status, "\(run.errors)")
        let words = run.errors
        #expect(words.hasPrefix("zonecast: ") && words.split(separator: "\n").count == 1, "\(words)")
        for inside in ["..", "NSPOSIX", "Error Domain", "Optional(", "operation could not be completed"] {
            #expect(!words.contains(inside), "\(words)")
        }
    }

    @Test func argumentsAreNotTakenForMistypedCommands() {
        for arguments in [
            ["serve", "--listn", "x"], ["config", "check", "nofile"], ["help", "serve"], ["--version"], [],
        ] {
            #expect(MistypedCommand.first(in: arguments) == nil, "\(arguments)")
        }
    }
}
