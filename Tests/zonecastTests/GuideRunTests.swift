import Foundation
import TestSupport
import Testing

@testable import zonecast

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
        for name in ada bob; do zonecast user add $name@example.org --password-stdin < password > /dev/null; done
        """

    private static let operating = GuideRun(
        guide: "operating",
        setup: """
            zonecast init --yes --domain sync.example.org --container \(container) --files "$PWD/etc" --data "$PWD/data"
            printf 'alerts.webhook: http://127.0.0.1:%s/hook\\n' $COLLECTOR >> etc/zonecast.yaml
            export ZONECAST_DATA="$PWD/data" ZONECAST_WEB_TOKEN=dev-ada
            printf 'correct horse\\n' > password
            \(serve)
            zonecast records create Note title=x --container \(container) > /dev/null
            kill $relay; wait $relay
            """,
        names: [
            ("/var/lib/zonecast", "\"$PWD/data\""), ("/etc/zonecast/zonecast.yaml", "\"$PWD/etc/zonecast.yaml\""),
            ("/srv/zonecast", "\"$PWD/copy\""), ("--user ada@example.org", "--user dev-ada"),
            ("--key-id …", "--key-id ABCDE12345"), ("--team-id …", "--team-id ABCDE12345"),
            ("--topics …", "--topics org.example.notes"), ("http://127.0.0.1:8080", "$ZONECAST_URL"),
            ("zonecast watch", "timeout 3 zonecast watch"),
            (
                "4f02f7aa-fbb5-4cf8-ae8e-4dd463793841",
                "$(grep -o 'request=[^ ]* status=200' relay.log | cut -c9-44 | head -1)"
            ),
        ],
        before: [
            ("zonecast user add", serve),
            ("zonecast push apns", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out AuthKey.p8"),
        ],
        appended: [
            ("zonecast logs --errors", " < relay.log"),
            ("zonecast logs", " < relay.log | grep -q 'status=200'"),
            ("zonecast user add", " --password-stdin < password"),
            ("zonecast user delete", " --yes"),
            // `watch` runs until it is stopped.
            ("zonecast watch", " || [ $? -eq 124 ]"),
        ]
    )

    private static let apps = GuideRun(
        guide: "apps",
        setup: """
            export ZONECAST_DATA="$PWD/data" ZONECAST_WEB_TOKEN=dev-alice
            \(serve)
            zonecast zones create Notes --container \(container)
            zonecast records create Note title=x --zone Notes --container \(container)
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
                "export ZONECAST_MANAGEMENT_TOKEN=$(zonecast token management create --quiet --container \(container))"
            ),
            ("zonecast role give", "bob=$(zonecast user sign-in ada@example.org --quiet --container \(container))"),
            (
                "zonecast shares accept",
                "export ZONECAST_WEB_TOKEN=$(zonecast user sign-in bob@example.org --quiet --container \(container))"
            ), ("zonecast shares permission", "export ZONECAST_WEB_TOKEN=dev-alice"),
        ],
        appended: [
            ("zonecast schema export", " --container \(container) > schema.ckdb"),
            ("zonecast schema codegen --file", ""),
            ("zonecast shares invite", " --container \(container) | tee invitation"),
            // The token is invalid, so the check exits with 1.
            ("zonecast issuer check", " --container \(container) || [ $? -eq 1 ]"),
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

    private static let guideRuns = [operating, apps, sdk]

    @Test(.enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"), arguments: guideRuns)
    func theCommandsOfEachGuideRun(_ guideRun: GuideRun) throws {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let collector = try Collector()
        var commands = try GuideTests.commands(in: "Deploy/guides/\(guideRun.guide).md")
        // In the foreground the relay runs until it is stopped; the same line in the background is run.
        commands.removeAll { $0 == "zonecast serve --dev" }
        #expect(commands.count > 5)
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
        for guide in ["operating", "apps", "sdk", "demo"] {
            let commands = try GuideTests.commands(in: "Deploy/guides/\(guide).md")
            #expect(commands.isEmpty == !Self.guideRuns.contains { $0.guide == guide }, "\(guide)")
        }
    }
}
