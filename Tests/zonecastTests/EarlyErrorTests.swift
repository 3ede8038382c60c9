import Crypto
import Foundation
import RelayCore
import RelayServer
import TestSupport
import Testing

@testable import zonecast

/// Failures are reported at once, with advice, and never look like success.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct EarlyErrorTests {
    private let folder = ScratchFolder()

    private func makeContainer() throws {
        let made = try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path])
        try #require(made.status == 0, "\(made.errors)")
    }

    private func file(_ name: String, _ text: String) throws -> String {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = "\(folder.path)/\(name)"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full"), "there is no /dev/full here"))
    func anOutputThatCannotBeWrittenIsAFailure() throws {
        let program = Command.program.path
        for command in ["config reference", "config reference --yaml", "config reference --json", "--help"] {
            let run = try Tool.run("sh", ["-c", "\(program) \(command) 2>&1 > /dev/full"])
            #expect(run.status == 1, "\(command)")
            #expect(run.output.contains("The output cannot be written: No space left on device."), "\(run.output)")
        }
    }

    @Test("a port that may not be used is refused with the remedies for low ports only")
    func lowPorts() {
        for port in [80, 443, 1023] {
            let words = "\(ListenError.notAllowed(ListeningAddress(host: "0.0.0.0", port: port)))"
            #expect(words.hasPrefix("Listening on 0.0.0.0:\(port) is not allowed for this user."), "\(words)")
            for remedy in [
                "AmbientCapabilities=CAP_NET_BIND_SERVICE", "setcap cap_net_bind_service=+ep",
                "sysctl net.ipv4.ip_unprivileged_port_start=80", "a proxy",
            ] { #expect(words.contains(remedy), "\(remedy)") }
        }
        let other = "\(ListenError.notAllowed(ListeningAddress(host: "0.0.0.0", port: 8080)))"
        #expect(!other.contains("setcap") && other.contains("choose another port"), "\(other)")
    }

    // MARK: Data folders

    @Test func aDamagedFileIsReportedWithAdvice() throws {
        try makeContainer()
        let place = "\(folder.path)/containers/iCloud.a.b"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        let garbage = Data(String(repeating: "garbage ", count: 1_000).utf8)
        try garbage.write(to: URL(fileURLWithPath: "\(place)/development.sqlite"))
        let container = ["--container", "iCloud.a.b", "--data", folder.path]
        let looks = [["schema", "export"] + container, ["storage", "show", "--data", folder.path]]
        for look in looks { try expectDamage("\(place)/development.sqlite", told: look) }
        for ending in ["-wal", "-shm"] { unlink("\(folder.path)/relay.sqlite\(ending)") }
        try garbage.write(to: URL(fileURLWithPath: "\(folder.path)/relay.sqlite"))
        for command in [["user", "list"], ["serve", "--listen", "127.0.0.1:0"]] {
            try expectDamage("relay.sqlite", told: command + ["--data", folder.path])
        }
    }

    private func expectDamage(_ file: String, told command: [String]) throws {
        let run = try Command.run(command)
        #expect(run.status == 1)
        #expect(run.errors.contains("\(file) in the data folder \(folder.path) is damaged."), "\(run.errors)")
        #expect(run.errors.contains("zonecast doctor --data \(folder.path) shows where"))
        #expect(run.errors.contains("zonecast backup restore latest --data \(folder.path)"))
    }

    @Test func aTooLowLimitOfOpenFilesIsReported() throws {
        let command = "ulimit -n 40; exec \"$0\" serve --dev --listen 127.0.0.1:0 --data \"$1\""
        let run = try Tool.run("sh", ["-c", command, Command.program.path, folder.path])
        #expect(run.status == 1)
        #expect(run.output.contains("to 40 open files and sockets; a relay needs at least"), "\(run)")
        #expect(run.output.contains("ulimit -n 4096"))
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self"), "there is no /proc here"))
    func aDemoReportsThatItsTemporaryFolderCannotBeWritten() throws {
        let run = try Command.run(["demo"], environment: ["TMPDIR": "/proc"])
        #expect(run.status == 1)
        #expect(run.errors.contains("/proc cannot be written: "), "\(run.errors)")
        #expect(run.errors.contains("TMPDIR=/var/tmp zonecast demo"), "\(run.errors)")
    }

    // MARK: Backups

    @Test func missingBackupsAndMissingFoldersAreDistinguished() throws {
        let nothing = try Command.run(["backup", "list", "--data", folder.path])
        #expect(nothing.status == 1 && nothing.output.isEmpty)
        #expect(nothing.errors.contains("There is no relay data in \(folder.path)"))
        try makeContainer()
        let none = try Command.run(["backup", "list", "--data", folder.path])
        #expect(none.status == 0)
        #expect(none.output.contains("Create one: zonecast backup create --data \(folder.path)\n"))
        for command in [["verify"], ["verify", "latest"], ["restore", "latest"]] {
            let run = try Command.run(["backup"] + command + ["--data", folder.path])
            #expect(run.status == 1)
            #expect(run.errors.contains("zonecast backup create --data \(folder.path)"), "\(run.errors)")
        }
        let elsewhere = try Command.run(["backup", "list", "--data", folder.path, "--backups", "\(folder.path)/none"])
        #expect(elsewhere.status == 1 && elsewhere.errors.contains("There is no folder \(folder.path)/none"))
    }

    /// Runs as another user, which only root can do.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("setpriv"), "only root can change its user"))
    func aFolderWithoutAccessIsReported() throws {
        try makeContainer()
        let list = [Command.program.path, "backup", "list", "--data", folder.path]
        let otherUser = try Tool.run("setpriv", ["--reuid", "65534", "--clear-groups"] + list)
        #expect(otherUser.status == 4)
        #expect(otherUser.output.contains("You have no access to \(folder.path)."), "\(otherUser.output)")
    }

    @Test func aScheduleForAnUnwritableFolderIsRefused() throws {
        try makeContainer()
        let place = try file("file", "") + "/backups"
        let refused = try Command.run(["backup", "schedule", "hourly", "--data", folder.path, "--backups", place])
        #expect(refused.status == 1)
        #expect(refused.errors.contains("Choose another folder with --backups."), "\(refused.errors)")
        let shown = try Command.run(["backup", "schedule", "--data", folder.path])
        #expect(shown.output.hasPrefix("There is no schedule."))
    }

    @Test func aScheduleThatMakesNoBackupsIsReportedAsAProblem() throws {
        try makeContainer()
        let place = "\(folder.path)/copies"
        let set = ["backup", "schedule", "hourly", "--data", folder.path, "--backups", place]
        #expect(try Command.run(set).status == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place).isEmpty)
        let checks = FolderChecks(folder: folder.path, isThorough: true)
        #expect(checks.backup(now: Date()).grade == .advice)
        let late = checks.backup(now: Date(timeIntervalSinceNow: 7_300))
        #expect(late.grade == .problem && late.found.contains("although the schedule is hourly"), "\(late)")
        // The folder is gone, and a file has taken its place.
        try FileManager.default.removeItem(atPath: place)
        _ = try file("copies", "")
        let gone = checks.backup(now: Date())
        #expect(gone.grade == .problem && gone.found.hasPrefix("no backup can be created: "), "\(gone)")
    }

    // MARK: Settings

    @Test(arguments: [
        ("dev: true\nlisten: 0.0.0.0:8080\n", "allowed on loopback only"),
        ("test-door: true\nlisten: 0.0.0.0:8080\n", "allowed on loopback only"),
        (
            "test-door: true\npublic-url: https://sync.example.org\n",
            "test-door is for tests on this machine and cannot be combined with public-url."
        ),
        ("test-door: true\ntls-cert: /none.pem\ntls-key: /none.key\n", "cannot be combined with tls-cert"),
        ("tls-cert: /none.pem\ntls-key: /none.key\n", "/none.pem is not a readable PEM certificate file"),
        ("metrics.token-file: /none\n", "metrics.token-file: /none holds no token"),
        (
            "traces.endpoint: http://127.0.0.1:1/\ntraces.token-file: /none\n",
            "traces.token-file: /none holds no token"
        ),
        ("push.fcm-account-file: /none\n", "push.fcm-account-file: /none is not a service account"),
    ])
    func configCheckRefusesWhatServeRefuses(text: String, words: String) throws {
        let path = try file("zonecast.yaml", text)
        let checked = try Command.run(["config", "check", path])
        #expect(checked.status == 2)
        #expect(checked.errors.contains(words), "\(checked.errors)")
    }

    @Test func configCheckReportsAllFaults() throws {
        let mistakes: [(text: String, told: [String])] = [
            (
                "listen: nowhere\nstorag.url: x\nlimits.body: many\ntls-cert: /none.pem\n",
                [
                    "line 2: \"storag.url\" is not a key", "line 1, listen: \"nowhere\"",
                    "line 3, limits.body: \"many\"", "tls-cert requires tls-key",
                ]
            ),
            // Invalid YAML has no values to check.
            (
                "storag.url: x\n???\ndata: a\ndata: b\n",
                ["line 2: write one", "line 1: \"storag.url\" is not a key", "line 4: \"data\" occurs twice"]
            ),
            (
                "dev: true\nlisten: 0.0.0.0:8080\nmetrics.token-file: /none\n",
                ["allowed on loopback only", "metrics.token-file: /none holds no token"]
            ),
        ]
        for (text, told) in mistakes {
            let checked = try Command.run(["config", "check", try file("zonecast.yaml", text)])
            #expect(checked.status == 2)
            let lines = checked.errors.split(separator: "\n")
            #expect(lines.count == told.count, "\(checked.errors)")
            for (line, words) in zip(lines, told) { #expect(line.contains(words)) }
        }
    }

    @Test func aByteOrderMarkIsAccepted() throws {
        let path = try file("zonecast.yaml", "\u{FEFF}listen: 127.0.0.1:9\ndata: x\n")
        let checked = try Command.run(["config", "check", path])
        #expect(checked.status == 0, "\(checked.errors)")
        #expect(checked.output == "2 keys set, 0 unknown\n")
    }

    @Test("a byte order mark is dropped before passwords, tokens and records, and in every file that a command reads")
    func marksBeforeInput() throws {
        let mark = "\u{FEFF}"
        let data = ["--data", folder.path]
        let add = ["user", "create", "ada@example.org", "--password-stdin"]
        #expect(try Command.run(add + data, input: mark + "correct horse\r\n").status == 0)
        #expect(try Command.run(["container", "create", "iCloud.org.example.notes"] + data).status == 0)
        let store = try DataFolder.home(folder.path).accounts()
        #expect(try store.account(email: "ada@example.org", password: "correct horse") != nil)
        #expect(try store.account(email: "ada@example.org", password: mark + "correct horse") == nil)

        let pem = P256.Signing.PrivateKey().publicKey.pemRepresentation
        let key = try Command.run(
            [
                "token", "create", "--kind", "server", "--container", "iCloud.org.example.notes", "--environment",
                "development", "--public-key",
                "-",
            ] + data,
            input: mark + pem
        )
        #expect(key.status == 0, "\(key.errors)")
        let token = try file("token", mark + "0123456789abcdef0123\n")
        let metrics = try file("zonecast.yaml", mark + "metrics.token-file: \(token)\n")
        #expect(try Command.run(["config", "check", metrics]).status == 0)
        let p8 = try file("key.p8", mark + P256.Signing.PrivateKey().pemRepresentation)
        let apns = [
            "push", "set", "apns", "--key-file", p8, "--key-id", "ABCDEFGHIJ", "--team-id", "0123456789", "--topics",
            "a.b",
            "--config", metrics,
        ]
        let set = try Command.run(apns)
        #expect(set.status == 0, "\(set.errors)")
        let written = try String(contentsOfFile: metrics, encoding: .utf8)
        #expect(
            written.hasPrefix("\u{FEFF}metrics.token-file: \(token)\n")
                || written.hasPrefix("metrics.token-file: \(token)\n")
        )
    }

    @Test func aFaultFoundByAnEditNamesTheFile() throws {
        let path = try file("zc.yaml", "listen: nowhere\n")
        let set = ["push", "set", "webpush", "--contact", "mailto:ada@example.org", "--config", path]
        let run = try Command.run(set)
        #expect(run.status == 2)
        #expect(run.errors.contains("zc.yaml line 1, listen"), "\(run.errors)")
    }

    @Test func initRefusesAnInvalidAdminAddressBeforeItWrites() throws {
        let files = folder.path + "/etc"
        let run = try Command.run([
            "init", "--yes", "--domain", "a.example", "--admin", "notmail", "--files", files, "--data", folder.path,
        ])
        #expect(run.status == 2)
        #expect(run.errors.contains("\"notmail\" is not an e-mail address."), "\(run.errors)")
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }

    @Test func unmutingAnAlertReportsNoEnd() throws {
        try makeContainer()
        let run = try Command.run(["alert", "edit", "disk", "--mute", "0", "--json", "--data", folder.path])
        #expect(run.output == "{\"mutedUntil\":null}\n", "\(run.output)")
    }

    // MARK: Relays

    @Test func aHangupStopsARelay() throws {
        let relay = try RelayProcess(folder: folder.path)
        relay.hangUp()
        #expect(try relay.end() == 0)
    }

    @Test func theConsoleLinkUsesThePublicURL() throws {
        for place in [folder.path, folder.path + "/2"] {
            #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", place]).status == 0)
        }
        let settings = ["ZONECAST_DATA": folder.path, "ZONECAST_PUBLIC_URL": "https://sync.example.org/"]
        let link = try Command.run(["user", "operator", "create"], environment: settings)
        #expect(link.output.hasPrefix("https://sync.example.org/console/#setup="), "\(link.output)")
        // The settings are for another data folder.
        let other = try Command.run(
            ["user", "operator", "create", "--data", folder.path + "/2"],
            environment: settings
        )
        #expect(other.output.hasPrefix("http://127.0.0.1:8080/console/#setup="), "\(other.output)")
        #expect(ConsoleLink.address("http://0.0.0.0:80", "K7Q2") == "http://127.0.0.1:80/console/#setup=K7Q2")
        #expect(ConsoleLink.address("http://[::]:80", "K7Q2") == "http://[::1]:80/console/#setup=K7Q2")
    }

    @Test func aDisabledConsoleIsReported() throws {
        let relay = try RelayProcess(folder: folder.path, [])
        let page = try relay.connect().send("GET", "/console/")
        #expect(page.status == 404)
        #expect(String(decoding: page.body, as: UTF8.self).contains("is disabled. Its operator enables it"))
        let link = ["user", "operator", "create", "--data", folder.path]
        #expect(try Command.run(link).errors.contains("does not serve its console"))
        #expect(relay.stop().status == 0)
        #expect(try Command.run(link).errors.contains("ZONECAST_CONSOLE=true zonecast serve --data \(folder.path)"))
    }
}
