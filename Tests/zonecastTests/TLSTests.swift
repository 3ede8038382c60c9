import Foundation
import TestSupport
import Testing

@testable import zonecast

/// TLS in the relay: requests, sockets, assets, and new certificates while it runs.
@Suite(.ownThread, .enabled(if: Tool.isInstalled("openssl"), "openssl is not installed"), .timeLimit(.minutes(15)))
struct TLSTests {
    private let folder = ScratchFolder()

    private func address(_ relay: RelayProcess, _ certificate: TestCertificate) throws -> ProbeAddress {
        var address = try #require(
            ProbeAddress("https://127.0.0.1:\(relay.port)", authorities: certificate.certificate)
        )
        address.timeout = 120
        return address
    }

    @Test func requestsSocketsAndASyncWorkOverTLS() async throws {
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 90)
        let relay = try RelayProcess(folder: folder.path, ["--dev"] + certificate.flags)
        let doctor = try Command.run([
            "doctor", "--json", "--timeout", "120", "--url", "https://localhost:\(relay.port)", "--authorities",
            certificate.certificate,
            "--web-token", "dev-alice",
        ])
        #expect(doctor.status == 0, "\(doctor.output)")
        let diagnosis = try doctor.json(DoctorTests.Diagnosis.self)
        #expect(diagnosis["public address"]?.found.hasSuffix("certificate 89 days") == true)
        for name in ["WebSocket", "round trip"] { #expect(diagnosis[name]?.grade == "good", "\(name)") }
        // The doctor of the folder accepts a certificate that does not name the relay's own address.
        #expect(try Command.run(["doctor", "--timeout", "120", "--data", folder.path]).status == 0)
        // An untrusted certificate is reported with its expiry date.
        let untrusting = try Command.run([
            "doctor", "--json", "--timeout", "120", "--url", "https://localhost:\(relay.port)",
        ])
        #expect(untrusting.status == 1)
        let found = try untrusting.json(DoctorTests.Diagnosis.self)["public address"]?.found ?? ""
        #expect(found.contains("has an invalid certificate") && found.contains("it expires 20"), "\(found)")
    }

    @Test func aNewCertificateIsUsedForNewConnectionsAndKeepsOldOnes() async throws {
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 30)
        let relay = try RelayProcess(
            folder: folder.path,
            ["--dev"] + certificate.flags,
            environment: ["ZONECAST_TLS_CHECK": "1"],
            log: folder.path + "/tls/log"
        )
        var anyCertificate = try address(relay, certificate)
        anyCertificate.acceptsAnyCertificate = true
        let old = try await Probe.connect(to: anyCertificate)
        #expect(try await old.send("GET", "/healthz").status == 200)
        let oldEnd = try #require(await old.certificateEnd())

        // Half of a renewal: the new certificate does not match the old key, so nothing changes.
        let other = try TestCertificate(in: folder.path + "/other", days: 200)
        try FileManager.default.removeItem(atPath: certificate.certificate)
        try FileManager.default.copyItem(atPath: other.certificate, toPath: certificate.certificate)
        try await until("the relay to say that it does not use the files") {
            let log = FileManager.default.contents(atPath: folder.path + "/tls/log") ?? Data()
            return String(decoding: log, as: UTF8.self).contains("is not the key of the first certificate")
        }
        #expect(try await end(anyCertificate) == oldEnd)

        try FileManager.default.removeItem(atPath: certificate.key)
        try FileManager.default.copyItem(atPath: other.key, toPath: certificate.key)
        try await until("the new certificate") { try await end(anyCertificate) != oldEnd }
        let newEnd = try #require(try await end(anyCertificate))
        #expect(newEnd.timeIntervalSince(oldEnd) > 150 * 86_400)
        #expect(try await old.send("GET", "/healthz").status == 200)
        #expect(await old.certificateEnd() == oldEnd)
        old.close()
    }

    /// Repeats a condition until it holds, 120 s at most.
    private func until(_ what: String, _ holds: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while try await !holds() {
            guard ContinuousClock.now < deadline else {
                throw RelayProcess.Failure(description: "waited 120 s for \(what)")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private func end(_ address: ProbeAddress) async throws -> Date? {
        let probe = try await Probe.connect(to: address)
        defer { probe.close() }
        _ = try await probe.send("GET", "/healthz")
        return await probe.certificateEnd()
    }

    @Test func anAssetIsDownloadedUnchanged() async throws {
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 30)
        let relay = try RelayProcess(folder: folder.path, ["--dev"] + certificate.flags)
        let probe = try await Probe.connect(to: try address(relay, certificate))
        defer { probe.close() }
        func post(_ path: String, _ body: String) async throws -> String {
            let answer = try await probe.send("POST", path, body: body)
            #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
            return String(decoding: answer.body, as: UTF8.self)
        }
        let place = "/database/1/iCloud.org.example.tls/development/private/"
        let tokenRequest = #"{"tokens":[{"recordType":"Note","recordName":"n","fieldName":"file"}]}"#
        let upload = try await post(place + "assets/upload?ckWebAuthToken=dev-alice", tokenRequest)
        let path = try #require(Self.target("url", of: upload))
        // Not a multiple of the chunk size.
        let content = String((0..<123_457).map { _ in "0123456789".randomElement() ?? "x" })
        let receipt = try await post(path, content)
        let asset = receipt.drop { $0 != ":" }.dropFirst().dropLast()
        let record = #"{"recordName":"n","recordType":"Note","fields":{"file":{"value":\#(asset),"type":"ASSETID"}}}"#
        let saved = try await post(
            place + "records/modify?ckWebAuthToken=dev-alice",
            #"{"operations":[{"operationType":"create","record":\#(record)}]}"#
        )
        let answer = try await probe.send("GET", try #require(Self.target("downloadURL", of: saved)))
        #expect(answer.status == 200)
        #expect(answer.body == Array(content.utf8))
        // The connection can be reused.
        #expect(try await probe.send("GET", "/healthz").status == 200)
    }

    /// Returns the path and query of a URL in a JSON text.
    private static func target(_ name: String, of json: String) -> String? {
        guard let start = json.firstRange(of: "\"\(name)\":\"https://")?.upperBound else { return nil }
        let address = json[start...].prefix { $0 != "\"" }
        return address.firstIndex(of: "/").map { String(address[$0...]) }
    }

    @Test func unusableTLSFilesAreNamed() throws {
        let certificate = try TestCertificate(in: folder.path + "/tls", days: 30)
        let other = try TestCertificate(in: folder.path + "/other", days: 30)
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", folder.path]
        let missing = try Command.run(
            serve + ["--tls-cert", certificate.certificate, "--tls-key", folder.path + "/none"]
        )
        #expect(missing.status == 1)
        #expect(missing.errors.contains("is not a readable PEM private key file (tls-key)"))
        let mixed = try Command.run(serve + ["--tls-cert", certificate.certificate, "--tls-key", other.key])
        #expect(mixed.status == 1)
        #expect(mixed.errors.contains("is not the key of the first certificate"), "\(mixed.errors)")
        let half = try Command.run(serve + ["--tls-cert", certificate.certificate])
        #expect(half.status == 2)
        #expect(half.errors.contains("tls-cert requires tls-key"))
    }
}
