import ArgumentParser
import Foundation
import Logging
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import Synchronization

/// `zonecast serve`: runs the relay.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the relay.",
        discussion: """
            Prints  ready http://HOST:PORT  on standard output once it is ready; all other output goes to standard error.
            SIGTERM, SIGINT or SIGHUP stops it within 10 seconds. Flags override the environment (ZONECAST_…), which overrides \
            the file; zonecast config reference lists all settings.
            """
    )

    @Option(
        help: ArgumentHelp("The data folder; one relay at a time. (default: ./zonecast-data)", valueName: "dir"),
        completion: .directory
    )
    var data: String?

    @Option(
        help: ArgumentHelp(
            "The name of this relay among those that serve the same database. (default: the machine's)",
            valueName: "name"
        )
    )
    var node: String?

    @Option(
        help: ArgumentHelp(
            "The PostgreSQL database in which several relays keep their data: postgres://user@host/database, or several hosts with commas. Its password is in ZONECAST_STORE_PASSWORD or in the file that ZONECAST_STORE_PASSWORD_FILE names.",
            valueName: "url"
        )
    )
    var store: String?

    @Option(
        help: ArgumentHelp(
            "S3-compatible storage for the assets of relays on a database. Its keys are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the address of a service other than Amazon's in AWS_ENDPOINT_URL.",
            valueName: "s3://bucket/prefix"
        )
    )
    var assetStorage: String?

    @Option(
        help: ArgumentHelp(
            "The address and port to listen on; with port 0, the system chooses one. (default: 127.0.0.1:8080)",
            valueName: "host:port"
        )
    )
    var listen: String?

    @Option(
        help: ArgumentHelp("PEM file of the certificate and its chain, for TLS without a proxy.", valueName: "file"),
        completion: .file()
    )
    var tlsCert: String?

    @Option(help: ArgumentHelp("PEM file of the certificate's private key.", valueName: "file"), completion: .file())
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "Obtain and renew a certificate for this name; listens on port 443 by default. Requires --acme-email.",
            valueName: "name"
        )
    )
    var domain: String?

    @Option(
        help: ArgumentHelp(
            "The address for messages of the certificate authority, whose terms of service you accept with it.",
            valueName: "address"
        )
    )
    var acmeEmail: String?

    @Flag(
        help: "Accept any dev-NAME as a web auth token, create unknown containers, set no rate limits. Loopback only."
    )
    var dev = false

    @Flag(help: "Serve GET /__echo, a WebSocket echo for conformance suites. Loopback only.")
    var testDoor = false

    @Option(
        help: ArgumentHelp(
            "Serve console, demo and zonecast.js from a copy of Sources/RelayConsole/Web, to see edits without a build. With --dev only.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var webFiles: String?

    @Option(help: ArgumentHelp("The file that zonecast demo --join writes for its relay.", visibility: .hidden))
    var demoGuests: String?

    @Flag(help: "Stop when standard input closes, as it does when the parent process ends.")
    var stopWithInput = false

    @Option(
        help: ArgumentHelp("A YAML file of settings. (default: $ZONECAST_CONFIG)", valueName: "file"),
        completion: .file()
    )
    var config: String?

    func validate() throws {
        if data?.isEmpty == true { throw ValidationError("--data is empty. Name the data folder.") }
        if let objection = store.flatMap({ StoreAddress($0) })?.objectionToFlag { throw ValidationError(objection) }
    }

    func run() async throws {
        let restart = SimulatedCrash()
        let environment = ProcessInfo.processInfo.environment
        let reading = try await ConfigurationReading(
            flags: flags,
            environment: environment,
            file: config ?? environment["ZONECAST_CONFIG"]
        )
        var settings = reading.settings
        try Self.checkLoopback(settings)
        try Self.checkDev(settings)
        try Self.checkTestDoor(settings)
        try Self.checkWebFiles(settings)
        try Self.checkStore(settings)
        try DataFolder.choose(settings)
        try DataFolder.requireMatch(settings.data)
        if let startupFault = FolderStructure(folder: settings.data).startupFault {
            throw CommandFailure(
                .failed,
                "\(startupFault). Move it to another place, or name another folder with --data."
            )
        }
        // Checks the port first, so that a wrong one leaves no new folder behind.
        if !FileManager.default.fileExists(atPath: settings.data),
            let fault = await ListenError.ofTrying(settings.server)
        {
            throw CommandFailure(.failed, "\(fault)")
        }
        if let refusal = FolderOwner.refusal(servingIn: settings.data) { throw CommandFailure(.notAllowed, refusal) }
        if stopWithInput { Self.stopWhenInputEnds() }
        Allocator.stopCountingOfSQLite()
        let guests = try demoGuests.map {
            try JSONDecoder().decode(DemoGuests.Settings.self, from: Data(contentsOf: URL(fileURLWithPath: $0)))
        }
        let first = try FolderLock(forRelayIn: settings.data)
        var address = try await Self.serve(settings, reading, restart, guests, first)
        while let port = address.flatMap({ URLComponents(string: $0)?.port }) {
            // While it waits for the command, the relay has nothing to finish at a stop signal. The handlers must be put back:
            // the signal library installs them once.
            let handlers = restart.stopSignals.map { number in
                var (standard, handler) = (sigaction(), sigaction())
                sigaction(number, &standard, &handler)
                return (number, handler)
            }
            let lock = try RelayPause.lockAgain(settings.data)
            for (number, var handler) in handlers { sigaction(number, &handler, nil) }
            settings.server.port = port
            address = try await Self.serve(settings, reading, restart, guests, lock, isFirst: false)
        }
    }

    /// Runs the relay; returns its address if a command asked for the data folder, and `nil` after a stop signal.
    private static func serve(
        _ settings: ServeSettings,
        _ reading: ConfigurationReading,
        _ restart: SimulatedCrash,
        _ guests: DemoGuests.Settings?,
        _ lock: FolderLock,
        isFirst: Bool = true
    ) async throws -> String? {
        defer { lock.unlock() }
        let own = Mutex<String?>(nil)
        let wasPaused = try await RunningRelay(
            settings,
            rows: reading.consoleRows,
            restart: restart,
            guests: guests
        ) { address in
            own.withLock { $0 = address }
            lock.note(address: address)
            lock.acceptRequests()
            if isFirst { Terminal.announce("ready \(address)") } else { Terminal.sayError("ready \(address)") }
        }.run()
        return wasPaused ? own.withLock { $0 } : nil
    }

    /// Uses a separate thread, which blocks on reading.
    private static func stopWhenInputEnds() {
        Thread {
            while !FileHandle.standardInput.availableData.isEmpty {}
            kill(getpid(), SIGTERM)
        }.start()
    }

    private var flags: [String: String] {
        var flags: [String: String] = [:]
        flags["data"] = data
        flags["node"] = node
        flags["store"] = store
        flags["asset-storage"] = assetStorage
        flags["listen"] = listen
        flags["tls-cert"] = tlsCert
        flags["tls-key"] = tlsKey
        flags["domain"] = domain
        flags["acme-email"] = acmeEmail
        if dev { flags["dev"] = "true" }
        if testDoor { flags["test-door"] = "true" }
        flags["web-files"] = webFiles.map { URL(fileURLWithPath: $0).path }
        return flags
    }

    /// Throws if a setting that is allowed on loopback only is used on another address.
    static func checkLoopback(_ settings: ServeSettings) throws {
        guard !settings.server.isLoopback else { return }
        if settings.isDev {
            throw CommandFailure(
                .usage,
                "--dev (dev: true) accepts any dev- token and is allowed on loopback only. Remove it or listen on 127.0.0.1."
            )
        }
        if settings.server.testDoor {
            throw CommandFailure(.usage, "\(ListenError.echoBeyondLoopback)")
        }
    }

    /// Throws if `dev` is set together with an https public-url: such a relay is for others, who could sign in as any
    /// user.
    static func checkDev(_ settings: ServeSettings) throws {
        guard let exposure = settings.exposure, settings.signIn.publicURL?.hasPrefix("https:") == true else { return }
        throw CommandFailure(.usage, "\(exposure) Remove dev, or public-url.")
    }

    /// Throws if the echo endpoint is enabled on a relay that others reach.
    ///
    /// See Reliability.md, "Testing".
    static func checkTestDoor(_ settings: ServeSettings) throws {
        guard settings.server.testDoor else { return }
        let isPublic = settings.signIn.publicURL?.hasPrefix("https:") == true
        let others = (isPublic ? ["public-url"] : []) + (settings.tlsCertificates == nil ? [] : ["tls-cert"])
        guard !others.isEmpty else { return }
        throw CommandFailure(
            .usage,
            "test-door is for tests on this machine and cannot be combined with \(others.joined(separator: " or ")). Remove test-door or the other setting."
        )
    }

    /// Throws if relays that share a database are to do what only one of them could.
    static func checkStore(_ settings: ServeSettings) throws {
        if settings.assetStorage != nil, settings.store == nil {
            throw CommandFailure(
                .usage,
                "asset-storage is for relays on a database. Set store too, or remove it: the data folder keeps the assets."
            )
        }
        if settings.publicQueryReplicas != nil, settings.store == nil {
            throw CommandFailure(
                .usage,
                "public-query-replicas are standbys of the relays' database. Set store too, or remove them."
            )
        }
        guard settings.store != nil, settings.acme.domain != nil else { return }
        throw CommandFailure(
            .usage,
            "domain obtains a certificate for the only relay of that name, and with store there may be several. Let the balancer in front of them end TLS, or name the same tls-cert and tls-key for each."
        )
    }

    /// Throws if pages are to be served from a folder on a relay without `dev`, or from one that has none.
    static func checkWebFiles(_ settings: ServeSettings) throws {
        guard let folder = settings.webFiles else { return }
        guard settings.isDev else {
            throw CommandFailure(
                .usage,
                "web-files is for developing pages and works with --dev only. Remove it or add --dev."
            )
        }
        guard FileManager.default.fileExists(atPath: folder + "/console/index.html") else {
            throw CommandFailure(
                .usage,
                "web-files: \(folder) has no console/index.html. Name a copy of Sources/RelayConsole/Web."
            )
        }
    }
}
