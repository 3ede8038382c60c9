import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The README and the guides: their commands run or at least exist, and the paths they name exist.
@Suite(.ownThread, .timeLimit(.minutes(15)), .serialized) struct GuideTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL.path
    private static var guides: [String] {
        get throws { try guideNames.map { "Deploy/guides/\($0).md" } }
    }

    /// The names of all guides, without extension.
    static var guideNames: [String] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: "\(root)/Deploy/guides")
                .filter { $0.hasSuffix(".md") }.map { String($0.dropLast(3)) }.sorted()
        }
    }

    /// Articles with commands.
    private static let articles = [
        "Sources/ZoneKit/ZoneKit.docc/FirstSync.md", "Sources/ZoneMirror/ZoneMirror.docc/YourFirstTerminalApp.md",
        "Sources/ZoneMirror/ZoneMirror.docc/YourFirstSyncedApp.md",
    ]

    private static func text(_ path: String) throws -> String {
        try String(contentsOfFile: "\(root)/\(path)", encoding: .utf8)
    }

    /// Returns the lines after `$ ` in console blocks, without their `#` comments.
    static func commands(in path: String) throws -> [String] {
        var isConsole = false
        var found: [String] = []
        for line in try text(path).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") {
                isConsole = line == "```console"
            } else if isConsole, line.hasPrefix("$ ") {
                let command = line.dropFirst(2)
                let end = command.firstRange(of: "  #")?.lowerBound ?? command.firstRange(of: " #")?.lowerBound
                found.append(command[..<(end ?? command.endIndex)].trimmingCharacters(in: .whitespaces))
            }
        }
        return found
    }

    /// Runs all commands that need neither root nor a build, in order, in an empty folder.
    @Test func theCommandsOfTheREADMERun() throws {
        let own = try Self.commands(in: "README.md").filter {
            // `DemoRunTests` covers the demo; Deploy/debian/test and Deploy/systemd/test run the commands that need
            // root, in a copy of the machine.
            (($0.hasPrefix("zonecast ") || $0.hasPrefix("echo ")) && !$0.hasPrefix("zonecast demo"))
                || $0.hasPrefix("export ")
        }
        #expect(own.count > 15)
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let ports = ["8080": try FreePort.take(), "8081": try FreePort.take()]
        var script = """
            set -eu
            cd '\(folder.path)'
            PATH='\(Command.program.deletingLastPathComponent().path)':$PATH
            trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

            """
        for var command in own {
            if command.hasPrefix("zonecast doctor") { command += " --timeout 120" }
            for (port, free) in ports { command = command.replacing(":\(port)", with: ":\(free)") }
            script += "echo \"step: \(command.replacing("\"", with: "'"))\"\n"
            guard command.hasSuffix("&") else {
                script += command + "\n"
                // The README's program follows this line. It must also work a second time.
                if command.hasPrefix("export ZONECAST_URL") { script += "first-save\nfirst-save\n" }
                continue
            }
            let port = command.firstMatch(of: /--listen 127\.0\.0\.1:(\d+)/).map { String($0.1) } ?? ""
            script += command.dropLast() + "> serve.log 2>&1 &\n"
            script +=
                "until zonecast doctor --quick --url http://127.0.0.1:\(port); do kill -0 $!; sleep 0.1; done\n"
        }
        let file = folder.path + "/script"
        try Data(script.utf8).write(to: URL(fileURLWithPath: file))
        let run = try Tool.run("bash", [file])
        #expect(run.status == 0, "\(run.output)")
        for count in 1...2 { #expect(run.output.contains("Notes on the relay: \(count)"), "\(run.output)") }
    }

    /// Every documented command has these verbs and options.
    @Test func everyDocumentedCommandExists() throws {
        for path in try ["README.md"] + Self.guides + Self.articles {
            for command in try Self.commands(in: path) {
                var words = command.split(separator: " ").map(String.init)
                if words.first == "sudo" { words.removeFirst() }
                guard words.first == "zonecast" else { continue }
                words.removeFirst()
                let verbs = words.prefix { $0.allSatisfy { $0.isLowercase || $0 == "-" } && !$0.hasPrefix("-") }
                let help = HelpText.of(Array(verbs)).map { GlobalFlags.added(to: $0) }
                #expect(help != nil, "\(path): \(command)")
                for option in words where option.hasPrefix("--") {
                    let name = String(option.prefix { $0 != "=" })
                    #expect(help?.contains(name) == true, "\(path): \(command): \(name)")
                }
            }
        }
    }

    @Test func everyNamedPathExists() throws {
        for path in try ["README.md"] + Self.guides {
            let text = try Self.text(path)
            for match in text.matches(of: /(?:Deploy|Sources|Tests)\/[A-Za-z0-9_.\/+-]*[A-Za-z0-9]/) {
                #expect(
                    FileManager.default.fileExists(atPath: "\(Self.root)/\(match.output)"),
                    "\(path): \(match.output)"
                )
            }
        }
        let lines = try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count < 180, "the README stays short enough to read in one go")
        for match in try Self.text("README.md").matches(of: /!\[[^\]]+\]\(([^)]+)\)/) {
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(Self.root)/\(match.1)")
            #expect((attributes[.size] as? Int ?? .max) < 200_000, "\(match.1)")
        }
    }
}

/// Runs the commands of each guide in order, in an empty folder; commands that cannot run are listed with the reason.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct GuideRunTests {
    /// How to run a guide's commands in a test: paths of the test in place of the system's, values in place of
    /// placeholders, and preparation between commands.
    struct GuideRun: Sendable, CustomTestStringConvertible {
        var guide: String
        /// Shell commands that run first.
        var setup: String
        /// Text in commands, and what replaces it.
        var names: [(String, String)] = []
        /// By the beginning of a command: what runs before it.
        var before: [(String, String)] = []
        /// By the beginning of a command: what is appended to it, such as its input.
        var appended: [(String, String)] = []
        /// By the beginning of a command: why it is not run.
        var skipped: [(String, String)] = []

        /// The guide's path.
        var path: String { guide.contains("/") ? guide : "Deploy/guides/\(guide).md" }

        var testDescription: String { guide }

        func script(_ commands: [String]) -> String {
            var lines = [setup]
            for command in commands {
                func find(_ rules: [(String, String)]) -> String? { rules.first { command.hasPrefix($0.0) }?.1 }
                if find(skipped) != nil { continue }
                if let step = find(before) { lines.append(step) }
                let named = names.reduce(command) { $0.replacing($1.0, with: $1.1) }
                lines.append("echo 'step: \(named.replacing("'", with: ""))'")
                lines.append(named + (find(appended) ?? ""))
            }
            return lines.joined(separator: "\n") + "\n"
        }
    }

    private static let container = "iCloud.org.example.notes"
    /// Starts a relay on the folder and waits until it is ready; clears the output of an earlier one first.
    private static let serve = """
        : > ready
        ZONECAST_LOG_ACCESS=true zonecast serve --dev --data "$PWD/data" --listen 127.0.0.1:0 > ready 2>> relay.log &
        relay=$!
        until grep -qs '^ready' ready; do kill -0 $relay; sleep 0.05; done
        export ZONECAST_URL=$(sed -n 's/^ready //p' ready)
        """
    private static let people = """
        printf 'correct horse\\n' > password
        for name in ada bob; do zonecast user create $name@example.org --password-stdin < password > /dev/null; done
        """

    private static let operating = GuideRun(
        guide: "operating",
        setup: """
            zonecast init --yes --domain sync.example.org --container \(container) --files "$PWD/etc" --data "$PWD/data"
            printf 'alerts.webhook: http://127.0.0.1:%s/hook\\n' $COLLECTOR >> etc/zonecast.yaml
            export ZONECAST_DATA="$PWD/data" ZONECAST_WEB_TOKEN=dev-ada
            printf 'correct horse\\n' > password
            \(serve)
            zonecast record create Note title=x --container \(container) > /dev/null
            kill $relay; wait $relay
            """,
        names: [
            ("/var/lib/zonecast", "\"$PWD/data\""), ("/etc/zonecast/zonecast.yaml", "\"$PWD/etc/zonecast.yaml\""),
            ("/srv/zonecast", "\"$PWD/copy\""), ("--user ada@example.org", "--user dev-ada"),
            ("--key-id …", "--key-id ABCDE12345"), ("--team-id …", "--team-id ABCDE12345"),
            ("--topics …", "--topics org.example.notes"), ("http://127.0.0.1:8080", "$ZONECAST_URL"),
            ("zonecast zone changes --follow", "timeout 3 zonecast zone changes --follow"),
            (
                "4f02f7aa-fbb5-4cf8-ae8e-4dd463793841",
                "$(grep -o 'request=[^ ]* status=200' relay.log | cut -c9-44 | head -1)"
            ),
        ],
        before: [
            ("zonecast user create", serve),
            (
                "zonecast push set apns",
                "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out AuthKey.p8"
            ),
        ],
        appended: [
            ("zonecast log show --errors", " < relay.log"),
            ("zonecast log show", " < relay.log | grep -q 'status=200'"),
            ("zonecast user create", " --password-stdin < password"),
            ("zonecast user delete", " --yes"),
            // It runs until it is stopped.
            ("zonecast zone changes --follow", " || [ $? -eq 124 ]"),
        ],
        skipped: [
            ("zonecast serve --domain", "it needs a public name; CertificateTests run it with a test authority"),
            ("export AWS_", "BackupTests run the next commands with a storage server of their own"),
        ]
            + ["create", "list", "verify latest", "schedule daily --keep 7", "restore latest"].map {
                ("zonecast backup \($0) --remote", "it needs storage; BackupTests run it with a server of their own")
            }
    )

    private static let apps = GuideRun(
        guide: "apps",
        setup: """
            export ZONECAST_DATA="$PWD/data" ZONECAST_WEB_TOKEN=dev-alice
            \(serve)
            zonecast zone create Notes --container \(container)
            zonecast record create Note title=x --zone Notes --container \(container)
            \(people)
            printf 'no token\\n' > token
            """,
        names: [
            (" --url https://sync.example.org --management-token …", " --url $ZONECAST_URL"), (" --url …", ""),
            (" --web-token …", ""), (" --container …", ""),
            ("LINK", "$(grep -o 'http[^ ]*' invitation | head -1)"), (" …", ""),
        ],
        before: [
            ("zonecast schema import", "sed -i '1a\\    CREATE ROLE moderator;' schema.ckdb"),
            (
                "zonecast schema diff",
                "export ZONECAST_MANAGEMENT_TOKEN=$(zonecast token create --kind management --quiet --container \(container))"
            ),
            (
                "zonecast user role grant",
                "bob=$(zonecast user sign-in ada@example.org --quiet --container \(container))"
            ),
            (
                "zonecast share accept",
                "export ZONECAST_WEB_TOKEN=$(zonecast user sign-in bob@example.org --quiet --container \(container))"
            ), ("zonecast share permission", "export ZONECAST_WEB_TOKEN=dev-alice"),
        ],
        appended: [
            ("zonecast schema export", " --container \(container) > schema.ckdb"),
            ("zonecast schema codegen --file", ""),
            ("zonecast share invite", " --container \(container) | tee invitation"),
            // The token is invalid, so the check exits with 1.
            ("zonecast user issuer check", " --container \(container) || [ $? -eq 1 ]"),
            ("zonecast", " --container \(container)"),
        ],
        skipped: [("curl", "it needs an identity token of an external issuer")]
    )

    private static let sdk = GuideRun(
        guide: "sdk",
        setup: "shared=$(dirname \"$(command -v zonecast)\")/shared-notes",
        names: [
            ("swift run shared-notes", "$shared"), ("zonecast serve --dev --data ./relay &", serve),
            ("LINK", "$(grep -o 'http[^ ]*' link | head -1)"),
        ],
        appended: [
            // The device must first fetch the share that the link points to.
            ("swift run shared-notes share", " --url $ZONECAST_URL | tee link"), ("swift run shared-notes --help", ""),
            ("swift run shared-notes", " --url $ZONECAST_URL"),
        ]
    )

    private static let upgrading = GuideRun(
        guide: "upgrading",
        setup: "zonecast container create \(container) --data \"$PWD/data\"",
        names: [("/var/lib/zonecast", "\"$PWD/data\"")],
        skipped: ["sudo", "podman", "tar", "zonecast-", "gpg", "sha256sum", "echo"].map {
            ($0, "it needs root, or the files of a release, which Deploy/packages/test checks")
        }
    )

    private static let terminalApp = GuideRun(
        guide: "Sources/ZoneMirror/ZoneMirror.docc/YourFirstTerminalApp.md",
        setup: "notes=$(dirname \"$(command -v zonecast)\")/notes",
        names: [
            ("swift run notes", "$notes"), ("zonecast serve --dev --data ./relay &", serve),
            ("http://127.0.0.1:8080", "$ZONECAST_URL"),
        ],
        appended: [
            ("swift run notes phone add", " | grep -qxF '[ ] Buy milk'"),
            ("swift run notes laptop list", " | grep -qxF '[ ] Buy milk'"),
            ("swift run notes laptop toggle", " | grep -qxF '[x] Buy milk'"),
            ("swift run notes phone list", " | grep -qxF '[x] Buy milk'"),
        ],
        skipped: [("swift build", "the test's own build has built the program")]
    )

    private static let platforms = GuideRun(
        guide: "platforms",
        setup: "",
        skipped: ["swift", "xcodebuild"].map { ($0, "it needs a Mac; .github/workflows/apple.yml runs it there") }
    )

    private static let guideRuns = [operating, upgrading, apps, sdk, terminalApp, platforms]

    @Test(.enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"), arguments: guideRuns)
    func theCommandsOfEachGuideRun(_ guideRun: GuideRun) throws {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let collector = try RequestCollector()
        var commands = try GuideTests.commands(in: guideRun.path)
        // In the foreground the relay runs until it is stopped; the same line in the background is run.
        commands.removeAll { $0 == "zonecast serve --dev" }
        #expect(!commands.isEmpty)
        let script = """
            set -eu
            cd '\(folder.path)'
            export HOME="$PWD" ZONECAST_QUICK_PASSWORDS=1 COLLECTOR=\(collector.port)
            PATH='\(Command.program.deletingLastPathComponent().path)':$PATH
            trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

            """
        let file = folder.path + "/script"
        try Data((script + guideRun.script(commands)).utf8).write(to: URL(fileURLWithPath: file))
        let run = try Tool.run("bash", [file])
        #expect(run.status == 0, "\(run.output.suffix(2000))")
    }

    /// A guide with commands needs an entry in `guideRuns`.
    @Test func everyGuideWithCommandsIsRun() throws {
        let guides = try GuideTests.guideNames
        #expect(guides.contains("platforms"))
        for guide in guides {
            let commands = try GuideTests.commands(in: "Deploy/guides/\(guide).md")
            #expect(commands.isEmpty == !Self.guideRuns.contains { $0.guide == guide }, "\(guide)")
        }
    }
}
