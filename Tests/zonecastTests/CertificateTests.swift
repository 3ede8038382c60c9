import ChildProcesses
import Foundation
import RelayServer
import TestSupport
import Testing

@testable import zonecast

/// `domain`: certificates that the relay obtains itself.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct CertificateTests {
    private let folder = ScratchFolder()

    private func settings(_ flags: [String: String]) async throws -> ServeSettings {
        try await ConfigurationReading(flags: flags, environment: [:], file: nil).settings
    }

    private func publicURL(_ settings: ServeSettings) -> String? {
        ConfigurationKeys.all.first { $0.name == "public-url" }?.read(settings)
    }

    private static let needed = ["domain": "Sync.Example.org", "acme-email": "Ops@example.org"]

    @Test("domain sets public-url, listens on port 443, and uses TLS files in the data folder")
    func defaults() async throws {
        let settings = try await settings(Self.needed.merging(["data": "/srv/z"]) { $1 })
        #expect(settings.acme.domain == "sync.example.org")
        #expect(publicURL(settings) == "https://sync.example.org")
        #expect("\(settings.address)" == "0.0.0.0:443")
        #expect("\(settings.acme.httpListen)" == "0.0.0.0:80")
        let path = "/srv/z/acme/sync.example.org.pem"
        #expect(settings.server.tls == TLSFiles(certificates: path, key: path))
        // The relay obtains the missing file itself.
        try settings.checkStart()

        let other = try await self.settings(
            Self.needed.merging(["listen": "127.0.0.1:8443", "public-url": "https://sync.example.org:8443"]) { $1 }
        )
        #expect("\(other.address)" == "127.0.0.1:8443")
        #expect(publicURL(other) == "https://sync.example.org:8443")
    }

    @Test(
        "settings that contradict domain are refused with the remedy",
        arguments: [
            (["domain": "a.example"], "acme-email"), (["acme-email": "a@b.example"], "requires domain"),
            (needed.merging(["tls-cert": "/a", "tls-key": "/b"]) { $1 }, "tls-cert and tls-key"),
            (["domain": "*.example.org"], "a domain name"), (["domain": "192.0.2.1"], "a domain name"),
            (["domain": "https://a.example"], "a domain name"),
            (needed.merging(["acme-email": "a@b.example,c@d.example"]) { $1 }, "an e-mail address"),
            (needed.merging(["acme-directory": "http://a.example/dir"]) { $1 }, "an https address"),
        ]
    )
    func refusals(flags: [String: String], words: String) async throws {
        let failure = await #expect(throws: CommandFailure.self) { try await settings(flags) }
        #expect(
            failure?.exit == .usage && failure?.description.contains(words) == true,
            "\(failure?.description ?? "")"
        )
    }

    @Test("dev is refused together with domain") func dev() async throws {
        let settings = try await settings(Self.needed.merging(["dev": "true", "listen": "127.0.0.1:0"]) { $1 })
        #expect(throws: CommandFailure.self) { try settings.checkStart() }
    }

    @Test("serve says that the port of the checks is in use, and what to do")
    func portTaken() throws {
        let taken = try ListeningPort()
        let run = try Command.run(
            [
                "serve", "--data", folder.path, "--listen", "127.0.0.1:0", "--domain", "sync.example.org",
                "--acme-email",
                "ops@example.org",
            ],
            environment: ["ZONECAST_ACME_HTTP_LISTEN": "127.0.0.1:\(taken.number)"]
        )
        #expect(run.status == 1)
        #expect(run.errors.contains("127.0.0.1:\(taken.number) (acme-http-listen)"), "\(run.errors)")
        #expect(run.errors.contains("another program uses it"), "\(run.errors)")
    }

    @Test("doctor reports why there is no certificate, and what to do")
    func doctor() async throws {
        let settings = try await settings(Self.needed.merging(["data": folder.path]) { $1 })
        let checks = FolderChecks(folder: folder.path, isThorough: false)
        #expect(checks.certificate(of: settings, now: Date())?.grade == .advice)
        try FileManager.default.createDirectory(atPath: folder.path + "/acme", withIntermediateDirectories: true)
        let status = #"{"directory":"d","fault":"Port 80 is closed.","remedy":"Open it."}"#
        try Data(status.utf8).write(to: URL(fileURLWithPath: folder.path + "/acme/sync.example.org.json"))
        let finding = try #require(checks.certificate(of: settings, now: Date()))
        #expect(finding == Finding("certificate", .problem, "Port 80 is closed.", next: "Open it."))
    }

    // MARK: pebble

    @Test(
        "the relay obtains a certificate from pebble, serves with it, and redirects port 80",
        .enabled(if: Tool.isInstalled("pebble"), "pebble is not installed"),
        .enabled(if: Tool.isInstalled("openssl"), "openssl is not installed")
    )
    func pebble() async throws {
        let pebble = try Pebble(in: folder.path + "/pebble")
        let log = folder.path + "/pebble/relay.log"
        let environment = [
            "ZONECAST_DOMAIN": Pebble.domain, "ZONECAST_ACME_EMAIL": "ops@example.org",
            "ZONECAST_ACME_DIRECTORY": "https://localhost:\(pebble.port)/dir",
            "ZONECAST_ACME_AUTHORITIES": pebble.certificate.certificate,
            "ZONECAST_ACME_HTTP_LISTEN": "127.0.0.1:\(pebble.httpPort)",
        ]
        let relay: RelayProcess
        do {
            relay = try RelayProcess(folder: folder.path + "/data", [], environment: environment, log: log)
        } catch {
            let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw RelayProcess.Failure(description: "\(error); \(words); pebble: \(pebble.output)")
        }
        let root = folder.path + "/pebble/root.pem"
        try Data(try await pebble.root()).write(to: URL(fileURLWithPath: root))
        let shown = try Tool.run(
            "openssl",
            [
                "s_client", "-connect", "127.0.0.1:\(relay.port)", "-servername", Pebble.domain, "-verify_hostname",
                Pebble.domain, "-CAfile", root, "-verify_return_error", "-brief",
            ]
        )
        #expect(shown.status == 0 && shown.output.contains("Verification: OK"), "\(shown.output)")

        let redirect = try HTTPConnection(port: pebble.httpPort, host: Pebble.domain).send("GET", "/console/")
        #expect(redirect.status == 301 && redirect.headers["location"] == "https://\(Pebble.domain)/console/")

        let doctor = try Command.run(
            ["doctor", "--json", "--timeout", "20", "--data", folder.path + "/data"],
            environment: environment
        )
        let found = try doctor.json(DoctorTests.Diagnosis.self)["certificate"]
        #expect(found?.grade == "good", "\(doctor.output)")
    }
}

/// The ACME test server of Let's Encrypt, on free ports, with a DNS server that finds every name on this machine.
private final class Pebble {
    static let domain = "sync.example.test"

    let port: Int
    /// The port of the domain that pebble takes for port 80.
    let httpPort: Int
    let certificate: TestCertificate
    private let managementPort: Int
    private let log: String
    private var processes: [ChildProcess] = []

    init(in folder: String) throws {
        certificate = try TestCertificate(in: folder, days: 90)
        port = try FreePort.take()
        httpPort = try FreePort.take()
        managementPort = try FreePort.take()
        let dnsPort = try FreePort.take()
        log = folder + "/log"
        let settings = """
            {"pebble": {"listenAddress": "127.0.0.1:\(port)", "managementListenAddress": "127.0.0.1:\(managementPort)",
            "certificate": "\(certificate.certificate)", "privateKey": "\(certificate.key)", "httpPort": \(httpPort),
            "tlsPort": \(try FreePort.take())}}
            """
        try Data(settings.utf8).write(to: URL(fileURLWithPath: folder + "/pebble.json"))
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        let noServers = ["-http01", "", "-https01", "", "-tlsalpn01", ""]
        try start(
            "pebble-challtestsrv",
            noServers + [
                "-dns01", "127.0.0.1:\(dnsPort)", "-management", "127.0.0.1:\(try FreePort.take())", "-defaultIPv6", "",
            ]
        )
        // pebble sleeps between validations and rejects some nonces; here it rejects every third.
        try start(
            "pebble",
            ["-config", folder + "/pebble.json", "-dnsserver", "127.0.0.1:\(dnsPort)", "-strict"],
            ["PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "30"]
        )
        let deadline = ContinuousClock.now + .seconds(60)
        while (try? HTTPConnection(port: port)) == nil {
            guard ContinuousClock.now < deadline else {
                throw RelayProcess.Failure(description: "waited 60 s for pebble: \(output)")
            }
            usleep(20_000)
        }
    }

    private func start(_ name: String, _ arguments: [String], _ environment: [String: String] = [:]) throws {
        let process = ChildProcess()
        process.executableURL = URL(fileURLWithPath: Tool.path(name) ?? "/nonexistent/\(name)")
        process.arguments = arguments
        process.environment = environment.merging(["PATH": "/usr/bin:/bin"]) { $1 }
        let output = FileHandle(forWritingAtPath: log)
        _ = try output?.seekToEnd()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        processes.append(process)
    }

    var output: String { (try? String(contentsOfFile: log, encoding: .utf8)) ?? "" }

    /// The certificate of the authority, which is new in every run.
    func root() async throws -> [UInt8] {
        var address = try #require(ProbeAddress("https://localhost:\(managementPort)"))
        address.acceptsAnyCertificate = true
        let probe = try await Probe.connect(to: address)
        defer { probe.close() }
        let answer = try await probe.send("GET", "/roots/0")
        return Array(answer.body)
    }

    deinit {
        for process in processes {
            process.terminate()
            process.waitUntilExit()
        }
    }
}
