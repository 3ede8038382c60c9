import ArgumentParser
import Foundation
import Logging
import RelayAPI
import RelayCore
import RelayServer

/// `zonecast serve`: runs the relay.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the relay.",
        discussion: """
            Prints  ready http://HOST:PORT  on standard output once it answers; everything else goes to standard error.
            SIGTERM, SIGINT or SIGHUP stop it within 10 seconds. Settings come from flags, then the environment (ZONECAST_…), \
            then the file; zonecast config reference lists them all.
            """
    )

    @Option(
        help: ArgumentHelp("The data folder; one relay at a time. (default: ./zonecast-data)", valueName: "dir"),
        completion: .directory
    )
    var data: String?

    @Option(
        help: ArgumentHelp(
            "Where to listen; port 0 lets the system choose. (default: 127.0.0.1:8080)",
            valueName: "host:port"
        )
    )
    var listen: String?

    @Option(
        help: ArgumentHelp("PEM file of certificate and chain: TLS without a proxy.", valueName: "file"),
        completion: .file()
    )
    var tlsCert: String?

    @Option(help: ArgumentHelp("PEM file of the certificate's private key.", valueName: "file"), completion: .file())
    var tlsKey: String?

    @Flag(help: "Take any dev-NAME as a web auth token, make unknown containers, limit no rates. Loopback only.")
    var dev = false

    @Flag(help: "Open GET /__echo, a WebSocket echo for conformance suites. Loopback only.")
    var testDoor = false

    @Flag(help: "Stop when standard input ends, as it does once the program that started the relay is gone.")
    var stopWithInput = false

    @Option(
        help: ArgumentHelp("A YAML file of settings. (default: $ZONECAST_CONFIG)", valueName: "file"),
        completion: .file()
    )
    var config: String?

    func validate() throws {
        if data?.isEmpty == true { throw ValidationError("--data is empty. Name the data folder.") }
    }

    func run() async throws {
        let restart = SuddenRestart()
        let environment = ProcessInfo.processInfo.environment
        let reading = try await ConfigurationReading(
            flags: flags,
            environment: environment,
            file: config ?? environment["ZONECAST_CONFIG"]
        )
        let settings = reading.settings
        try Self.checkLoopback(settings)
        try Self.checkDev(settings)
        try Self.checkTestDoor(settings)
        if let obstacle = FolderShape(folder: settings.data).obstacle {
            throw CommandFailure(.failed, "\(obstacle). Move it away, or name another folder with --data.")
        }
        // Whoever has named the wrong port finds no new folder left behind.
        if !FileManager.default.fileExists(atPath: settings.data),
            let fault = await ListenError.ofTrying(settings.server)
        {
            throw CommandFailure(.failed, "\(fault)")
        }
        if let refusal = FolderOwner.refusal(servingIn: settings.data) { throw CommandFailure(.notAllowed, refusal) }
        let lock = try FolderLock(forRelayIn: settings.data)
        defer { withExtendedLifetime(lock) {} }
        if stopWithInput { Self.stopWhenInputEnds() }
        Allocator.stopCountingOfSQLite()
        try await RunningRelay(settings, rows: reading.consoleRows, restart: restart) { address in
            lock.note(address: address)
            Terminal.announce("ready \(address)")
        }.run()
    }

    /// On a thread of its own, which waits for nothing else.
    private static func stopWhenInputEnds() {
        Thread {
            while !FileHandle.standardInput.availableData.isEmpty {}
            kill(getpid(), SIGTERM)
        }.start()
    }

    private var flags: [String: String] {
        var flags: [String: String] = [:]
        flags["data"] = data
        flags["listen"] = listen
        flags["tls-cert"] = tlsCert
        flags["tls-key"] = tlsKey
        if dev { flags["dev"] = "true" }
        if testDoor { flags["test-door"] = "true" }
        return flags
    }

    /// What is for this machine alone must not be reached from others.
    static func checkLoopback(_ settings: ServeSettings) throws {
        guard !settings.server.isLoopback else { return }
        if settings.isDev {
            throw CommandFailure(
                .usage,
                "--dev (dev: true) accepts any dev- token and is allowed on loopback only. Remove it or listen on 127.0.0.1."
            )
        }
        if settings.server.testDoor {
            throw CommandFailure(.usage, "\(ListenError.testDoorBeyondLoopback)")
        }
    }

    /// A name with a certificate is of a relay that is set up for others: one where dev was forgotten would be open to all.
    static func checkDev(_ settings: ServeSettings) throws {
        guard let openness = settings.openness, settings.signIn.publicURL?.hasPrefix("https:") == true else { return }
        throw CommandFailure(.usage, "\(openness) Remove dev, or public-url.")
    }

    /// Nor is the test door for a relay that is set up for others to reach.
    ///
    /// See Reliability.md, "Testing".
    static func checkTestDoor(_ settings: ServeSettings) throws {
        guard settings.server.testDoor else { return }
        let isPublic = settings.signIn.publicURL?.hasPrefix("https:") == true
        let others = (isPublic ? ["public-url"] : []) + (settings.tlsCertificates == nil ? [] : ["tls-cert"])
        guard !others.isEmpty else { return }
        throw CommandFailure(
            .usage,
            "test-door is for tests on this machine, and \(others.joined(separator: " and ")) for a relay that others reach. Remove test-door, or the other."
        )
    }
}
