import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// Errors of commands that cannot reach a relay, or that a relay refuses.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RelayAddressTests {
    private let folder = ScratchFolder()
    private let container = ["--container", "iCloud.org.example.cli"]

    private static let commands = [
        ["zone", "list"], ["record", "query", "Note"], ["login"], ["zone", "changes", "--follow"],
        ["schema", "export", "--management-token", "t"],
    ]

    @Test(arguments: [
        "http://127.0.0.1:99999", "http://127.0.0.1:65536", "http://[::1]:99999", "http://127.0.0.1:0",
        "ftp://127.0.0.1", "http://127.0.0.1:-1", "http://127.0.0.1:99999999999999999999",
    ])
    func anInvalidAddressIsRefused(_ address: String) throws {
        for command in Self.commands {
            let run = try Command.run(
                command + container + ["--url", address],
                input: "token\n",
                environment: ["ZONECAST_WEB_TOKEN": "dev-alice"]
            )
            #expect(run.status == 2, "\(command): \(run.errors)")
            #expect(run.errors.contains("'\(address)' is not an address such as http"), "\(run.errors)")
        }
        let demo = try Command.run(["demo", "--url", address])
        #expect(demo.status == 2 && demo.errors.contains("is not an address"), "\(demo.errors)")
    }

    @Test(.enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"))
    func anUntrustedCertificateIsDistinguishedFromAnUnreachableRelay() throws {
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 90)
        let relay = try RelayProcess(folder: folder.path, ["--dev"] + certificate.flags)
        for (scheme, words) in [("https", "has an invalid certificate"), ("http", "speaks TLS")] {
            for command in Self.commands where !command.contains("--follow") {
                let run = try Command.run(
                    command + container + ["--url", "\(scheme)://127.0.0.1:\(relay.port)"],
                    input: "dev-alice\n",
                    environment: ["ZONECAST_WEB_TOKEN": "dev-alice"]
                )
                #expect(run.status == 3 && run.errors.contains(words), "\(command): \(run.errors)")
            }
        }
    }

    @Test func aMissingAPITokenIsNamed() throws {
        let made = try Command.run(["container", "create", "iCloud.org.example.cli", "--data", folder.path])
        try #require(made.status == 0, "\(made.errors)")
        let relay = try RelayProcess(folder: folder.path, [])
        let url = ["--url", "http://127.0.0.1:\(relay.port)"]
        let withoutToken = try Command.run(
            ["zone", "list"] + container + url,
            environment: ["ZONECAST_WEB_TOKEN": "some"]
        )
        #expect(withoutToken.status == 4 && withoutToken.errors.contains("--api-token"), "\(withoutToken.errors)")
        let wrong = try Command.run(
            ["zone", "list"] + container + url + ["--api-token", "wrong"],
            environment: ["ZONECAST_WEB_TOKEN": "some"]
        )
        #expect(wrong.status == 4 && wrong.errors.contains("API token is revoked"), "\(wrong.errors)")
        let doctor = try Command.run(
            ["doctor", "--timeout", "120", "--web-token", "some"] + container + url
        )
        #expect(doctor.output.contains("→ add the container's API token with --api-token"), "\(doctor.output)")
    }

    @Test func aRefusalIsReportedInTheRelaysWords() async throws {
        let words = "Too many connections are open. Try again in a few seconds"
        let body = #"{"serverErrorCode":"TRY_AGAIN_LATER","reason":"\#(words)."}"#
        let server = try FixedResponseServer(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        )
        var address = try #require(ProbeAddress("http://127.0.0.1:\(server.port)"))
        address.timeout = 120
        let checks = RelayChecks(address: address)
        for found in [await checks.listening(), await checks.publicAddress()] {
            #expect(found.found.hasSuffix(words), "\(found)")
        }
    }

    @Test func watchReportsWhyNoNoticesArriveAndKeepsTrying() throws {
        let server = try FixedResponseServer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        let watch = ChildProcess()
        watch.executableURL = Command.program
        let url = "http://127.0.0.1:\(server.port)"
        watch.arguments = ["zone", "changes", "-f", "--url", url, "--web-token", "dev-alice"] + container
        watch.environment = Command.cleanEnvironment()
        let errors = Pipe()
        watch.standardOutput = FileHandle.nullDevice
        watch.standardError = errors
        try watch.run()
        let line = String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
        #expect(line.hasPrefix("No notices arrive: the relay at http://127.0.0.1:\(server.port) answers 404"))
        #expect(watch.isRunning)
        watch.terminate()
        watch.waitUntilExit()
        #expect(watch.terminationStatus == 0)
    }
}
