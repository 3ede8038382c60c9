import Crypto
import Foundation
import TestSupport
import Testing

/// `serve` as an operator uses it.
@Suite(.ownThread, .serialized) struct ServeTests {
    let folder = ScratchFolder()

    private func zonecast(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(arguments + ["--data", folder.path], input: input)
    }

    private let caller = "/database/1/iCloud.org.example.notes/development/public/users/caller"
    private let home = ["--container", "iCloud.org.example.notes"]

    private struct Token: Decodable { var apiToken: String, id: String }
    private struct SignIn: Decodable { var ckWebAuthToken: String, userRecordName: String }
    private struct Identity: Decodable { var userRecordName: String }

    @Test func aRelayReportsReadyAnswersAndStops() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        for path in ["/healthz", "/readyz"] { #expect(try connection.send("GET", path).status == 200) }
        let answer = try connection.send("GET", caller + "?ckWebAuthToken=dev-alice")
        #expect(answer.status == 200)
        #expect(try answer.json(Identity.self).userRecordName.hasPrefix("_"))
        let stopped = relay.stop()
        #expect(stopped.status == 0)
        #expect(stopped.took < .seconds(120))
    }

    @Test func serveTellsWhereThingsAre() throws {
        let log = folder.path + "-log"
        defer { unlink(log) }
        let relay = try RelayProcess(folder: folder.path, log: log)
        #expect(relay.stop().status == 0)
        let lines = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
        let address = "http://127.0.0.1:\(relay.port)"
        #expect(
            lines.contains { $0.hasPrefix("data    /") && $0.hasSuffix(folder.path.split(separator: "/").last ?? "") }
        )
        #expect(lines.contains { $0.hasPrefix("console \(address)/console/#setup=") })
        #expect(lines.contains("demo    \(address)/demo/"))
    }

    @Test func requestsInTheConsoleSurviveARestart() throws {
        struct Saved: Decodable {
            struct Line: Decodable { var status: Int }
            var lines: [Line]
        }
        for runs in 1...2 {
            let relay = try RelayProcess(folder: folder.path)
            #expect(try relay.connect().send("POST", "/database/1/x", body: "{}").status >= 400)
            #expect(relay.stop().status == 0)
            let saved = try #require(FileManager.default.contents(atPath: "\(folder.path)/requests.json"))
            #expect(try JSONDecoder().decode(Saved.self, from: saved).lines.count == runs)
        }
    }

    @Test func aSecondRelayOnTheFolderIsRefusedAndTheFirstKeepsRunning() throws {
        let relay = try RelayProcess(folder: folder.path)
        for isLockFileGone in [false, true] {
            if isLockFileGone { try FileManager.default.removeItem(atPath: folder.path + "/relay.lock") }
            let second = try Command.run(["serve", "--dev", "--data", folder.path, "--listen", "127.0.0.1:0"])
            #expect(second.status == 5)
            #expect(second.errors.contains("in use by another relay"))
            #expect(second.output.isEmpty)
        }
        #expect(try relay.connect().send("GET", "/healthz").status == 200)
        relay.killHard()
        // The kernel must release the lock of a killed relay, or the operator could not restart it.
        _ = try RelayProcess(folder: folder.path)
    }

    @Test func aRelayWaitsForACommandThatUsesTheFolder() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let lock = open(folder.path + "/relay.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        #expect(lock >= 0 && flock(lock, LOCK_EX) == 0 && write(lock, "1 command\n", 10) == 10)
        let log = folder.path + "/serve.log"
        let expected = "A command (process 1) uses \(folder.path). Waiting for it to end"
        Thread {
            // Releases the lock once the relay reports that it waits, at the latest after 60 s.
            let deadline = ContinuousClock.now + .seconds(60)
            while ContinuousClock.now < deadline {
                let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
                if words.contains(expected) { break }
                usleep(5_000)
            }
            close(lock)
        }.start()
        let start = ContinuousClock.now
        let relay = try RelayProcess(folder: folder.path, log: log)
        #expect(try relay.connect().send("GET", "/healthz").status == 200)
        #expect(ContinuousClock.now - start < .seconds(60), "the relay did not report that it waits")
    }

    @Test(arguments: ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
    func devAndTestDoorAreAllowedOnLoopbackOnly(address: String) throws {
        for flag in ["--dev", "--test-door"] {
            let refused = try Command.run(["serve", flag, "--listen", address, "--data", folder.path])
            #expect(refused.status == 2)
            #expect(refused.errors.contains("allowed on loopback only"))
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }

    @Test(.enabled(if: Tool.canMount, "only root can mount"))
    func aReadOnlyDiskIsReported() throws {
        let program = "'\(Command.program.path)'"
        let script = """
            mount -t tmpfs tmpfs /mnt && \(program) container create iCloud.a.b --data /mnt/relay >/dev/null 2>&1
            mount -o remount,ro /mnt
            \(program) serve --data /mnt/relay --listen 127.0.0.1:0; echo "serve $?"
            \(program) serve --data /mnt/new --listen 127.0.0.1:0; echo "new $?"
            \(program) container create iCloud.c.d --data /mnt/relay; echo "create $?"
            """
        let output = try Tool.run("unshare", ["-m", "sh", "-c", "{ \(script)\n} 2>&1"]).output
        #expect(output.matches(of: /Read-only file system. The disk is mounted read-only/).count == 2, "\(output)")
        #expect(output.contains("serve 4") && output.contains("new 4") && output.contains("create 1"), "\(output)")
        #expect(output.contains("relay.sqlite: it cannot be written") && !output.contains("Name another"), "\(output)")
    }

    @Test func devWithAPublicURLIsRefused() throws {
        let refused = try Command.run(
            ["serve", "--dev", "--listen", "127.0.0.1:0", "--data", folder.path],
            environment: ["ZONECAST_PUBLIC_URL": "https://sync.example.org"]
        )
        #expect(refused.status == 2 && refused.errors.contains("Remove dev, or public-url."), "\(refused.errors)")
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }

    @Test func testDoorWithAPublicURLIsRefused() throws {
        let refused = try Command.run(
            ["serve", "--test-door", "--listen", "127.0.0.1:0", "--data", folder.path],
            environment: ["ZONECAST_PUBLIC_URL": "https://sync.example.org"]
        )
        #expect(refused.status == 2)
        #expect(refused.errors.contains("test-door") && refused.errors.contains("public-url"))
        #expect(!FileManager.default.fileExists(atPath: folder.path))
        let relay = try RelayProcess(
            folder: folder.path,
            ["--test-door"],
            environment: ["ZONECAST_PUBLIC_URL": "http://127.0.0.1:8080"]
        )
        #expect(relay.stop().status == 0)
    }

    @Test func aPortInUseIsReportedWithACommandToTry() throws {
        let relay = try RelayProcess(folder: folder.path)
        let other = ScratchFolder()
        let refused = try Command.run(["serve", "--listen", "127.0.0.1:\(relay.port)", "--data", other.path])
        #expect(refused.status == 1)
        #expect(
            refused.errors
                == "zonecast: 127.0.0.1:\(relay.port) is in use by another program. "
                + "Try: zonecast serve --listen 127.0.0.1:0 (any free port)\n"
        )
        #expect(!FileManager.default.fileExists(atPath: other.path))
    }

    @Test func aRunningRelayAcceptsNewCredentialsAndSoonRefusesRevokedOnes() throws {
        let relay = try RelayProcess(folder: folder.path, [])
        let connection = try relay.connect()
        #expect(try connection.send("GET", caller + "?ckWebAuthToken=dev-alice").status == 401)

        #expect(try zonecast("container", "create", "iCloud.org.example.notes").status == 0)
        let token = try Command.run(["token", "create", "--json", "--data", folder.path] + home).json(Token.self)
        let unauthenticated = try connection.send("GET", caller + "?ckAPIToken=" + token.apiToken)
        #expect(unauthenticated.status == 421)
        struct Required: Decodable { var serverErrorCode: String, reason: String, redirectURL: String }
        let required = try unauthenticated.json(Required.self)
        #expect(required.serverErrorCode == "AUTHENTICATION_REQUIRED")
        #expect(required.reason == "request needs authorization")
        #expect(
            required.redirectURL.contains("/signin?container=iCloud.org.example.notes&environment=development&token=")
        )
        #expect(!required.redirectURL.contains(token.apiToken))

        #expect(
            try zonecast("user", "create", "alice@example.org", "--password-stdin", input: "correct horse").status == 0
        )
        let signIn = try Command.run(["user", "sign-in", "alice@example.org", "--json", "--data", folder.path] + home)
            .json(SignIn.self)
        let target = caller + "?ckAPIToken=\(token.apiToken)&ckWebAuthToken=" + escaped(signIn.ckWebAuthToken)
        let known = try connection.send("GET", target)
        #expect(known.status == 200)
        #expect(try known.json(Identity.self).userRecordName == signIn.userRecordName)
        let fresh = try #require(known.headers["x-apple-cloudkit-web-auth-token"])
        let next = caller + "?ckAPIToken=\(token.apiToken)&ckWebAuthToken=" + escaped(fresh)
        #expect(try connection.send("GET", next).status == 200)

        #expect(try zonecast("user", "disable", "alice@example.org").status == 0)
        #expect(try status(of: target, on: relay, becomes: 421))
        #expect(try zonecast("token", "revoke", token.id).status == 0)
        #expect(try status(of: target, on: relay, becomes: 401))
    }

    @Test func aRequestSignedWithAServerKeyIsAccepted() throws {
        let key = P256.Signing.PrivateKey()
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let file = folder.path + "/key.pem"
        try key.publicKey.pemRepresentation.write(toFile: file, atomically: true, encoding: .utf8)
        let added = try Command.run(
            ["token", "create", "--kind", "server", "--public-key", file, "--json", "--data", folder.path] + home
        )
        let keyID = try #require(try added.json([String: String].self)["keyID"])
        let relay = try RelayProcess(folder: folder.path, [])
        let date = Date().formatted(.iso8601)
        let message = "\(date)::\(caller)"
        let signature = try key.signature(for: Data(message.utf8)).derRepresentation.base64EncodedString()
        let headers = [
            "X-Apple-CloudKit-Request-KeyID": keyID,
            "X-Apple-CloudKit-Request-ISO8601Date": date,
            "X-Apple-CloudKit-Request-SignatureV1": signature,
        ]
        let connection = try relay.connect()
        #expect(try connection.send("GET", caller, headers: headers).status == 200)
        #expect(try connection.send("GET", caller + "?ckAPIToken=x", headers: headers).status == 401)
    }

    @Test func aRelayStopsInTimeDuringRequests() throws {
        let relay = try RelayProcess(folder: folder.path)
        let port = relay.port
        let caller = caller
        let threads = (0..<4).map { number in
            let thread = Thread {
                guard let connection = try? HTTPConnection(port: port) else { return }
                let target = caller + "?ckWebAuthToken=dev-user\(number)"
                while (try? connection.send("GET", target)) != nil {}
            }
            thread.start()
            return thread
        }
        #expect(try relay.connect().send("GET", "/healthz").status == 200)
        let stopped = relay.stop()
        #expect(stopped.status == 0)
        #expect(stopped.took < .seconds(120))
        _ = threads
    }

    /// The server waits for open responses before it ends, and cuts late ones.
    @Test func aWaitingPollIsAnsweredWhenTheRelayStops() throws {
        struct Device: Decodable { var webcourierURL: String }
        let relay = try RelayProcess(folder: folder.path, environment: ["ZONECAST_NOTICES_LONGEST_POLL": "300"])
        let create = "/device/1/iCloud.org.example.notes/development/tokens/create?ckWebAuthToken=dev-alice"
        let address = try relay.connect().send("POST", create, body: "{}").json(Device.self).webcourierURL
        let poll = String(address.drop { $0 != "?" })
        let path = "/device/1/iCloud.org.example.notes/development/webcourier"
        try #require(address.hasSuffix(path + poll), "\(address)")
        // The second poll of a device waits; the first is answered when the second arrives.
        let polls = try [relay.connect(), relay.connect()]
        for connection in polls { try connection.begin("GET", path + poll) }
        let deadline = ContinuousClock.now + .seconds(120)
        while !polls.contains(where: { $0.hasInput(within: 5) }), ContinuousClock.now < deadline {}
        relay.beginStop()
        for connection in polls {
            let answer = try connection.finish()
            #expect(answer.status == 200 && answer.body.isEmpty)
        }
        #expect(try relay.end() == 0)
    }

    @Test func withStopWithInputARelayEndsWhenItsInputCloses() throws {
        let input = Pipe()
        let relay = try RelayProcess(folder: folder.path, ["--dev", "--stop-with-input"], input: input)
        #expect(try relay.connect().send("GET", "/healthz").status == 200)
        try input.fileHandleForWriting.close()
        #expect(try relay.end() == 0)
    }

    /// Repeats a request on new connections until it gets this status; `false` after 120 s.
    private func status(of target: String, on relay: RelayProcess, becomes status: Int) throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            if try relay.connect().send("GET", target).status == status { return true }
        }
        return false
    }

    private func escaped(_ token: String) -> String {
        token.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
    }
}
