import Foundation
import TestSupport
import Testing

@testable import zonecast

/// `zonecast init`: all that a relay needs, made once and never written over.
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

    @Test func systemdReadsPathsAsTheyAre() {
        var files = SetupFiles(domain: "sync.example.org")
        files.data = "/srv/d 9/100%"
        files.configuration = "/etc/s p/$x.yaml"
        #expect(files.unit.contains(#"ReadWritePaths="/srv/d 9/100%%""# + "\n"))
        #expect(files.unit.contains(#"serve --config "/etc/s p/$$x.yaml""# + "\n"))
    }

    @Test func aDomainGivesFilesAContainerAndAnAccountAndTheRelayStartsWithThem() throws {
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
        #expect(made.status == 0, "\(made.complaint)")
        #expect(try made.json(Answer.self).steps.allSatisfy(\.made))
        #expect(try made.json(Answer.self).next == ["zonecast serve --config \(files)/zonecast.yaml"])
        let shown = try Command.run(["config", "show", "--json", "--config", files + "/zonecast.yaml"])
        #expect(shown.output.contains(#""key":"public-url","meaning""#))
        #expect(shown.output.contains("https://sync.example.org") && shown.output.contains("127.0.0.1:18080"))
        #expect(try Command.run(["container", "list", "--data", data]).output.contains("iCloud.org.example.sync"))
        #expect(try text("proxy/nginx.conf").contains("proxy_pass http://127.0.0.1:18080;"))
        for name in ["proxy/Caddyfile", "proxy/haproxy.cfg", "zonecast.service"] { #expect(try !text(name).isEmpty) }
        // The admin is let into the console by the same password, before the relay has ever run.
        let operators = try Command.run(["console", "operators", "--data", data])
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

    @Test func asOftenAsItIsRunWhatIsThereStays() throws {
        _ = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org")
        try "mine\n".write(toFile: files + "/proxy/nginx.conf", atomically: true, encoding: .utf8)
        try "public-url: https://other.example\n".write(
            toFile: files + "/zonecast.yaml",
            atomically: true,
            encoding: .utf8
        )
        let again = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org", "--json")
        #expect(again.status == 0)
        // The file lacked some keys and got them; what it says stays.
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
                "zonecast console link --url https://a.example --data \(folder.path)/d2"
            )
        )
        let third = try initialize("--domain", "sync.example.org", "--admin", "ada@example.org", "--json")
        #expect(try third.json(Answer.self).steps.allSatisfy { !$0.made })
    }

    /// Whoever mistyped the domain, or has files of another relay there, would go on with a configuration that is not theirs.
    @Test func whatStaysOtherwiseThanItWasAskedForIsTold() throws {
        func detail(_ run: Command) throws -> String {
            try #require(run.json(Answer.self).steps.first { $0.what == "configuration" }).detail
        }
        let path = "\(files)/zonecast.yaml"
        #expect(try detail(initialize("--domain", "sync.exmaple.org", "--port", "18080", "--json")) == path)
        // What is left out is not asked for.
        #expect(try detail(initialize("--domain", "sync.exmaple.org", "--json")) == path)
        let mended = try initialize("--domain", "sync.example.org", "--port", "9090", "--json")
        #expect(mended.status == 0)
        #expect(
            try detail(mended)
                == "\(path), where listen: 127.0.0.1:18080 and public-url: https://sync.exmaple.org stay. Change that there."
        )
        let elsewhere = try Command.run([
            "init", "--yes", "--files", files, "--data", data + "2", "--domain", "sync.exmaple.org", "--admin",
            "ada@example.org", "--json",
        ])
        #expect(try detail(elsewhere) == "\(path): console, where data: \(data) stays. Change that there.")
    }

    @Test func aContainerAloneNeedsNoFilesAndNothingIsRefusedInTheMiddle() throws {
        #expect(try initialize("--container", "iCloud.a.b").status == 0)
        #expect(!FileManager.default.fileExists(atPath: files))
        for wrong in [[], ["--domain", "https://x.example"], ["--domain", "a..b"], ["--password-stdin"]] {
            #expect(try Command.run(["init", "--yes", "--data", data + "/2"] + wrong).status == 2, "\(wrong)")
        }
        for wrong in ["sync.example.org:8443", "bücher.example"] {
            let run = try Command.run(["init", "--yes", "--data", data + "/2", "--domain", wrong])
            #expect(run.status == 2 && run.complaint.contains("without https:// and port"), "\(run.complaint)")
        }
        #expect(!FileManager.default.fileExists(atPath: data + "/2"))
    }

    /// `Deploy` shows what `init` writes.
    @Test func theSamplesInTheRepositoryAreTheFilesItWrites() throws {
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

    /// It exits 0 on values that it does not understand, so any word of it is a failure.
    @Test(.enabled(if: Tool.isThere("systemd-analyze"), "systemd-analyze is not installed"))
    func systemdHasNothingToSayAboutTheService() throws {
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        var setup = SetupFiles(domain: "sync.example.org")
        // It looks whether the program is there.
        setup.program = Command.program.path
        try setup.unit.write(toFile: files + "/zonecast.service", atomically: true, encoding: .utf8)
        let verdict = try Tool.run("systemd-analyze", ["verify", "--recursive-errors=no", files + "/zonecast.service"])
        #expect(verdict.status == 0 && verdict.said.isEmpty, "\(verdict.said)")
    }
}
