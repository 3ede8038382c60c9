import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The proxy samples with the real proxies: each proxy checks its sample, then a client syncs through it over TLS and a
/// WebSocket.
@Suite(
    .ownThread,
    .enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"),
    .serialized,
    .timeLimit(.minutes(15))
)
struct ProxyTests {
    private let folder = ScratchFolder()

    /// A proxy process that ends with this object.
    private final class Proxy {
        let process = ChildProcess()

        init(_ name: String, _ arguments: [String], log: String, home: String) throws {
            process.executableURL = URL(fileURLWithPath: Tool.path(name) ?? "/nonexistent/\(name)")
            process.arguments = arguments
            process.environment = ["HOME": home, "PATH": "/usr/sbin:/usr/bin:/bin", "XDG_DATA_HOME": home]
            _ = FileManager.default.createFile(atPath: log, contents: nil)
            process.standardError = FileHandle(forWritingAtPath: log)
            process.standardOutput = FileHandle.nullDevice
            process.standardInput = FileHandle.nullDevice
            try process.run()
        }

        deinit {
            process.terminate()
            process.waitUntilExit()
        }
    }

    private func write(_ text: String, _ name: String) throws -> String {
        let path = "\(folder.path)/\(name)"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    /// Expects all checks of the doctor to pass through the proxy.
    private func expectSync(through port: Int, _ certificate: TestCertificate, log: String) throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while (try? HTTPConnection(port: port)) == nil {
            guard ContinuousClock.now < deadline else {
                let output = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
                throw RelayProcess.Failure(description: "waited 120 s for the proxy to listen; its output: \(output)")
            }
            usleep(20_000)
        }
        let run = try Command.run([
            "doctor", "--json", "--timeout", "120", "--url", "https://localhost:\(port)", "--authorities",
            certificate.certificate,
            "--web-token", "dev-alice",
        ])
        let diagnosis = try run.json(DoctorTests.Diagnosis.self)
        for name in ["public address", "WebSocket", "clock", "round trip"] {
            #expect(diagnosis[name]?.grade == "good", "\(name): \(diagnosis[name]?.found ?? "not checked")")
        }
        #expect(run.status == 0)
    }

    @Test(.enabled(if: Tool.isInstalled("nginx"), "nginx is not installed"))
    func nginxForwardsRequestsAndWebSockets() throws {
        let certificate = try TestCertificate(in: folder.path, days: 90)
        let relay = try RelayProcess(folder: folder.path + "/data", ["--dev"])
        let port = try FreePort.take()
        let site = SetupFiles(domain: "localhost", port: relay.port).nginx
            .replacing("listen 443 ssl", with: "listen 127.0.0.1:\(port) ssl")
            .replacing("    listen [::]:443 ssl;\n", with: "")
            .replacing("/etc/letsencrypt/live/localhost/fullchain.pem", with: certificate.certificate)
            .replacing("/etc/letsencrypt/live/localhost/privkey.pem", with: certificate.key)
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(folder.path)/\($0);" }.joined(separator: "\n")
        let path = try write(
            """
            daemon off; pid \(folder.path)/nginx.pid; error_log stderr;
            events {}
            http {
            access_log off;
            \(temporary)
            \(site)
            }
            """,
            "nginx.conf"
        )
        let checked = try Tool.run("nginx", ["-t", "-c", path, "-p", folder.path])
        #expect(checked.status == 0, "\(checked.output)")
        let log = folder.path + "/proxy.log"
        let proxy = try Proxy("nginx", ["-c", path, "-p", folder.path], log: log, home: folder.path)
        try expectSync(through: port, certificate, log: log)
        withExtendedLifetime(proxy) {}
    }

    @Test(.enabled(if: Tool.isInstalled("haproxy"), "haproxy is not installed"))
    func haproxyForwardsRequestsAndWebSockets() throws {
        let certificate = try TestCertificate(in: folder.path, days: 90)
        let relay = try RelayProcess(folder: folder.path + "/data", ["--dev"])
        let port = try FreePort.take()
        let both = try [certificate.certificate, certificate.key]
            .map { try String(contentsOfFile: $0, encoding: .utf8) }.joined()
        let bundle = try write(both, "both.pem")
        let path = try write(
            SetupFiles(domain: "localhost", port: relay.port).haproxy
                .replacing(
                    "bind :443 ssl crt /etc/haproxy/certs/localhost.pem",
                    with: "bind 127.0.0.1:\(port) ssl crt \(bundle)"
                )
                .replacing("maxconn 20000", with: "maxconn 200"),
            "haproxy.cfg"
        )
        let checked = try Tool.run("haproxy", ["-c", "-f", path])
        #expect(checked.status == 0, "\(checked.output)")
        let log = folder.path + "/proxy.log"
        let proxy = try Proxy("haproxy", ["-f", path], log: log, home: folder.path)
        try expectSync(through: port, certificate, log: log)
        withExtendedLifetime(proxy) {}
    }

    @Test(.enabled(if: Tool.isInstalled("caddy"), "caddy is not installed"))
    func caddyForwardsRequestsAndWebSockets() throws {
        let certificate = try TestCertificate(in: folder.path, days: 90)
        let relay = try RelayProcess(folder: folder.path + "/data", ["--dev"])
        let port = try FreePort.take()
        let site = SetupFiles(domain: "localhost", port: relay.port).caddy
            .replacing(
                "localhost {\n",
                with:
                    "https://localhost:\(port) {\n    bind 127.0.0.1\n    tls \(certificate.certificate) \(certificate.key)\n"
            )
        let path = try write("{\n    admin off\n    auto_https disable_redirects\n}\n" + site, "Caddyfile")
        let checked = try Tool.run("caddy", ["validate", "--adapter", "caddyfile", "--config", path])
        #expect(checked.status == 0, "\(checked.output)")
        let log = folder.path + "/proxy.log"
        let arguments = ["run", "--adapter", "caddyfile", "--config", path]
        let proxy = try Proxy("caddy", arguments, log: log, home: folder.path)
        try expectSync(through: port, certificate, log: log)
        withExtendedLifetime(proxy) {}
    }

    /// The monitoring files use only metrics that the relay exports, and Prometheus accepts the rules.
    @Test func theDashboardAndTheAlertsUseMetricsOfTheRelay() async throws {
        // With TLS, since one metric is about the certificate.
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 30)
        let relay = try RelayProcess(folder: folder.path + "/data", ["--dev"] + certificate.flags)
        let address = ProbeAddress("https://localhost:\(relay.port)", authorities: certificate.certificate)
        let connection = try await Probe.connect(to: try #require(address))
        defer { connection.close() }
        let caller = "/database/1/iCloud.a.b/development/public/users/caller?ckWebAuthToken=dev-alice"
        #expect(try await connection.send("GET", caller).status == 200)
        #expect(try await connection.send("GET", caller.replacing("users/caller", with: "nothing")).status >= 400)
        let shown = String(decoding: try await connection.send("GET", "/metrics").body, as: UTF8.self)
        let deploy = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Deploy/monitoring").standardizedFileURL.path
        for name in ["grafana.json", "alerts.yaml"] {
            let text = try String(contentsOfFile: "\(deploy)/\(name)", encoding: .utf8)
            let named = Set(text.matches(of: /zonecast_[a-z_]+/).map { String($0.output) })
            #expect(!named.isEmpty)
            for metric in named { #expect(shown.contains("\n\(metric)"), "\(name) names \(metric)") }
        }
        guard Tool.isInstalled("promtool") else { return }
        for rules in ["alerts", "alerts.cluster"] {
            let checked = try Tool.run("promtool", ["check", "rules", "\(rules).yaml"], in: deploy)
            #expect(checked.status == 0, "\(checked.output)")
            let tested = try Tool.run("promtool", ["test", "rules", "\(rules).test.yaml"], in: deploy)
            #expect(tested.status == 0, "\(tested.output)")
        }
    }

    @Test(
        "Caddy accepts the file for several relays",
        .enabled(if: Tool.isInstalled("caddy"), "caddy is not installed")
    )
    func caddyForSeveralRelays() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Deploy/proxy/Caddyfile.cluster").standardizedFileURL.path
        let checked = try Tool.run("caddy", ["validate", "--adapter", "caddyfile", "--config", file])
        #expect(checked.status == 0, "\(checked.output)")
    }
}
