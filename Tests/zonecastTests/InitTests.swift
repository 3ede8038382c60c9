import Foundation
import TestSupport
import Testing

@testable import zonecast

/// `zonecast init` makes everything that a relay needs, once, and overwrites nothing.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct InitTests {
    private let folder = ScratchFolder()

    private struct Answer: Decodable {
        struct Step: Decodable {
            var what: String
            var detail: String
            var made: Bool
        }
        var steps: [Step]
        var next: [String]
    }

    private var files: String { folder.path + "/files" }
    private var data: String { folder.path + "/data" }

    private func initialize(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(["init", "--yes", "--files", files, "--data", data] + arguments, input: input)
    }

    private func text(_ name: String) throws -> String {
        try String(contentsOfFile: "\(files)/\(name)", encoding: .utf8)
    }

    @Test func pathsAreEscapedForSystemd() {
        var files = SetupFiles(domain: "sync.example.org")
        files.data = "/srv/d 9/100%"
        files.configuration = "/etc/s p/$x.yaml"
        #expect(files.unit.contains(#"ReadWritePaths="/srv/d 9/100%%""# + "\n"))
        #expect(files.unit.contains(#"serve --config "/etc/s p/$$x.yaml""# + "\n"))
    }

    @Test func initWithADomainMakesFilesAContainerAndAnAccountThatTheRelayStartsWith() throws {
        let made = try initialize(
            "--domain",
            "sync.example.org",
            "--admin",
            "ada@example.org",
            "--password-stdin",
            "--port",
            "18080",
            "--json",
            input: "correct horse\n"
        )
        #expect(made.status == 0, "\(made.errors)")
        #expect(try made.json(Answer.self).steps.allSatisfy(\.made))
        let place = "--container iCloud.org.example.sync --data \(data)"
        #expect(
            try made.json(Answer.self).next == [
                "zonecast serve --config \(files)/zonecast.yaml", "zonecast token create \(place)",
                "zonecast user sign-in ada@example.org \(place)",
            ]
        )
        let shown = try Command.run(["config", "show", "--json", "--config", files + "/zonecast.yaml"])
        #expect(shown.output.contains(#""key":"public-url","meaning""#))
        #expect(shown.output.contains("https://sync.example.org") && shown.output.contains("127.0.0.1:18080"))
        #expect(try Command.run(["container", "list", "--data", data]).output.contains("iCloud.org.example.sync"))
        #expect(try text("proxy/nginx.conf").contains("proxy_pass http://127.0.0.1:18080;"))
        for name in ["proxy/Caddyfile", "proxy/haproxy.cfg", "zonecast.service"] { #expect(try !text(name).isEmpty) }
        // The password opens the console for the admin before the relay has ever run.
        let operators = try Command.run(["user", "operator", "list", "--data", data])
        #expect(operators.output.contains("ada@example.org"))
        let relay = try RelayProcess(folder: data, ["--config", files + "/zonecast.yaml"])
        #expect(try relay.connect().send("GET", "/readyz").status == 200)
        let signIn = try relay.connect().send(
            "POST",
            "/console/api/session",
            headers: ["X-Zonecast-Console": "1"],
            body: #"{"name":"ada@example.org","password":"correct horse"}"#
        )
        #expect(signIn.status == 200, "\(String(decoding: signIn.body, as: UTF8.self))")
    }

    @Test func repeatedRunsKeepExistingFiles() throws {
        _ = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org")
        try "mine\n".write(toFile: files + "/proxy/nginx.conf", atomically: true, encoding: .utf8)
        try "public-url: https://other.example\n".write(
            toFile: files + "/zonecast.yaml",
            atomically: true,
            encoding: .utf8
        )
        let again = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org", "--json")
        #expect(again.status == 0)
        // The configuration lacked some keys, which were added; its values stay.
        #expect(try again.json(Answer.self).steps.filter(\.made).map(\.what) == ["configuration"])
        #expect(try text("proxy/nginx.conf") == "mine\n")
        let configuration = try text("zonecast.yaml")
        #expect(configuration.hasPrefix("public-url: https://other.example\n"))
        #expect(!configuration.contains("sync.example.org") && configuration.contains("trusted-proxies: 127.0.0.1\n"))
        let steps = try Command.run([
            "init", "--yes", "--files", folder.path + "/f2", "--data", folder.path + "/d2", "--domain", "a.example",
            "--admin",
            "ada@example.org", "--json",
        ])
        #expect(
            try steps.json(Answer.self).next.contains(
                "zonecast user operator create --url https://a.example --data \(folder.path)/d2"
            )
        )
        let third = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org", "--json")
        #expect(try third.json(Answer.self).steps.allSatisfy { !$0.made })
    }

    @Test func theLastStepsGiveAWorkingTokenAndASignedInUser() throws {
        struct SignedIn: Decodable { var ckWebAuthToken: String }
        let made = try initialize("--container", "iCloud.a.b", "--admin", "ada@example.org", "--token", "--json")
        let token = try #require(made.json(Answer.self).steps.first { $0.what == "API token for production" })
        #expect(token.made && token.detail.count == 64)
        let again = try initialize("--container", "iCloud.a.b", "--admin", "ada@example.org", "--token", "--json")
        #expect(try again.json(Answer.self).steps.allSatisfy { !$0.made }, "a token is not created twice")
        let step = try #require(made.json(Answer.self).next.last)
        #expect(step.hasPrefix("zonecast user sign-in ada@example.org "))
        let signedIn = try Command.run(step.split(separator: " ").dropFirst().map(String.init) + ["--json"])
        let user = try signedIn.json(SignedIn.self).ckWebAuthToken
        let relay = try RelayProcess(folder: data, [])
        let answer = try relay.connect().send(
            "POST",
            "/database/1/iCloud.a.b/production/private/zones/list?ckAPIToken=\(token.detail)&ckWebAuthToken="
                + user.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D"),
            body: "{}"
        )
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
    }

    /// Otherwise a mistyped domain, or files of another relay, would go unnoticed.
    @Test func existingSettingsThatDifferFromTheOptionsAreReported() throws {
        func detail(_ run: Command) throws -> String {
            try #require(run.json(Answer.self).steps.first { $0.what == "configuration" }).detail
        }
        let path = "\(files)/zonecast.yaml"
        #expect(try detail(initialize("--domain", "sync.exmaple.org", "--port", "18080", "--json")) == path)
        // Options that are not given are not compared.
        #expect(try detail(initialize("--domain", "sync.exmaple.org", "--json")) == path)
        let corrected = try initialize("--domain", "sync.example.org", "--port", "9090", "--json")
        #expect(corrected.status == 0)
        #expect(
            try detail(corrected)
                == "\(path), where listen: 127.0.0.1:18080 and public-url: https://sync.exmaple.org stay. Change that there."
        )
        let elsewhere = try Command.run([
            "init", "--yes", "--files", files, "--data", data + "2", "--domain", "sync.exmaple.org", "--admin",
            "ada@example.org", "--json",
        ])
        #expect(try detail(elsewhere) == "\(path): console, where data: \(data) stays. Change that there.")
    }

    @Test func aContainerNeedsNoFilesAndInvalidOptionsLeaveNothingBehind() throws {
        #expect(try initialize("--container", "iCloud.a.b").status == 0)
        #expect(!FileManager.default.fileExists(atPath: files))
        for wrong in [[], ["--domain", "https://x.example"], ["--domain", "a..b"], ["--password-stdin"]] {
            #expect(try Command.run(["init", "--yes", "--data", data + "/2"] + wrong).status == 2, "\(wrong)")
        }
        for wrong in ["sync.example.org:8443", "bücher.example"] {
            let run = try Command.run(["init", "--yes", "--data", data + "/2", "--domain", wrong])
            #expect(run.status == 2 && run.errors.contains("without https:// and port"), "\(run.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: data + "/2"))
    }

    /// The samples in `Deploy` are the files that `init` writes.
    @Test func theSamplesInTheRepositoryMatchTheFilesThatInitWrites() throws {
        let deploy = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Deploy").standardizedFileURL.path
        let samples = SetupFiles(domain: "sync.example.org")
        for (path, text) in [
            ("proxy/Caddyfile", samples.caddy), ("proxy/nginx.conf", samples.nginx),
            ("proxy/haproxy.cfg", samples.haproxy), ("zonecast.service", samples.unit),
        ] {
            #expect(try String(contentsOfFile: "\(deploy)/\(path)", encoding: .utf8) == text, "\(path)")
        }
    }

    /// `systemd-analyze` exits with 0 on values that it does not understand, so any output is a failure.
    @Test(.enabled(if: Tool.isInstalled("systemd-analyze"), "systemd-analyze is not installed"))
    func systemdAcceptsTheService() throws {
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        var setup = SetupFiles(domain: "sync.example.org")
        // systemd-analyze checks that the program exists.
        setup.program = Command.program.path
        try setup.unit.write(toFile: files + "/zonecast.service", atomically: true, encoding: .utf8)
        let verdict = try Tool.run("systemd-analyze", ["verify", "--recursive-errors=no", files + "/zonecast.service"])
        #expect(verdict.status == 0 && verdict.output.isEmpty, "\(verdict.output)")
    }
}
