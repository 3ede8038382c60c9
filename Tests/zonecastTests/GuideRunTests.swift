import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The guides' commands, typed one after the other in an empty folder as a newcomer does; what is left out says why.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct GuideRunTests {
    /// How a guide's commands become ones that a test can run: places of its own for the system's, names for what is left
    /// open, and what has to be there before.
    struct Walk: Sendable, CustomTestStringConvertible {
        var guide: String
        /// In a shell, before the first.
        var setup: String
        /// Text of commands, and what stands for it here.
        var names: [(String, String)] = []
        /// By how a command begins: what a person would have done before it.
        var before: [(String, String)] = []
        /// By how a command begins: what is added behind it, such as an answer that is asked for.
        var behind: [(String, String)] = []
        /// By how a command begins: why it is not run.
        var leftOut: [(String, String)] = []

        var testDescription: String { guide }

        func script(_ commands: [String]) -> String {
            var lines = [setup]
            for command in commands {
                func find(_ rules: [(String, String)]) -> String? { rules.first { command.hasPrefix($0.0) }?.1 }
                if find(leftOut) != nil { continue }
                if let step = find(before) { lines.append(step) }
                let named = names.reduce(command) { $0.replacing($1.0, with: $1.1) }
                lines.append("echo 'step: \(named.replacing("'", with: ""))'")
                lines.append(named + (find(behind) ?? ""))
            }
            return lines.joined(separator: "\n") + "\n"
        }
    }

    private static let container = "iCloud.org.example.notes"
    /// A relay on the folder, and a wait until it is ready; what an earlier one said of itself is forgotten first.
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

    private static let operating = Walk(
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
        behind: [
            ("zonecast logs --errors", " < relay.log"),
            ("zonecast logs", " < relay.log | grep -q 'status=200'"),
            ("zonecast user add", " --password-stdin < password"),
            ("zonecast user delete", " --yes"),
            // It goes on until it is stopped.
            ("zonecast watch", " || [ $? -eq 124 ]"),
        ]
    )

    private static let apps = Walk(
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
        behind: [
            ("zonecast schema export", " --container \(container) > schema.ckdb"),
            ("zonecast schema codegen --file", ""),
            ("zonecast shares invite", " --container \(container) | tee invitation"),
            // It says why this is none.
            ("zonecast issuer check", " --container \(container) || [ $? -eq 1 ]"),
            ("zonecast", " --container \(container)"),
        ],
        leftOut: [("curl", "it takes an identity token of somebody else's issuer")]
    )

    private static let sdk = Walk(
        guide: "sdk",
        setup: "shared=$(dirname \"$(command -v zonecast)\")/shared-notes",
        names: [
            ("swift run shared-notes", "$shared"), ("zonecast serve --dev --data ./relay &", serve),
            ("LINK", "$(grep -o 'http[^ ]*' link | head -1)"),
        ],
        behind: [
            // Of a device that has just been told to come: it fetches first what the link leads to.
            ("swift run shared-notes share", " --url $ZONECAST_URL | tee link"), ("swift run shared-notes --help", ""),
            ("swift run shared-notes", " --url $ZONECAST_URL"),
        ]
    )

    private static let walks = [operating, apps, sdk]

    @Test(.enabled(if: Tool.isThere("openssl"), "openssl is not installed"), arguments: walks)
    func theCommandsOfAGuideRun(_ walk: Walk) throws {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let collector = try Collector()
        var commands = try GuideTests.commands(in: "Deploy/guides/\(walk.guide).md")
        // In the foreground it goes on until it is stopped; the same line in the background is run.
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
        try Data((script + walk.script(commands)).utf8).write(to: URL(fileURLWithPath: file))
        let run = try Tool.run("bash", [file])
        #expect(run.status == 0, "\(run.said.suffix(2000))")
    }

    /// Nothing is left out but what says why.
    @Test func everyGuideWithCommandsIsWalked() throws {
        for guide in ["operating", "apps", "sdk", "demo"] {
            let commands = try GuideTests.commands(in: "Deploy/guides/\(guide).md")
            #expect(commands.isEmpty == !Self.walks.contains { $0.guide == guide }, "\(guide)")
        }
    }
}
