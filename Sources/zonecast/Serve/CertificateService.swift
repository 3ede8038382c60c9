import AsyncHTTPClient
import Foundation
import Logging
import RelayAPI
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem
import ServiceLifecycle

/// Obtains and renews the relay's certificate, and serves port 80 for the certificate authority's checks.
struct CertificateService: Service {
    private let options: ACMEOptions
    private let folder: CertificateFolder
    private let email: String
    /// Where requests on port 80 are redirected to.
    private let origin: String
    private let client: HTTPClient
    private let logger: Logger
    private let availability: AsyncStream<Void>
    private let available: AsyncStream<Void>.Continuation

    /// Returns `nil` if the relay does not obtain certificates.
    init?(_ settings: ServeSettings, logger: Logger) throws {
        guard let folder = settings.certificates, let email = settings.acme.email else { return nil }
        options = settings.acme
        self.folder = folder
        self.email = email
        origin = Self.origin(settings.signIn.publicURL) ?? "https://\(folder.domain)"
        client = try options.client()
        self.logger = logger
        (availability, available) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    /// An address without its path.
    private static func origin(_ url: String?) -> String? {
        guard let url, var parts = URLComponents(string: url), parts.scheme == "https" else { return nil }
        parts.path = ""
        return parts.string
    }

    func run() async throws {
        let (listening, isListening) = AsyncStream.makeStream(of: Void.self)
        let answers = ChallengeAnswers()
        let server = ChallengeServer(
            address: ListeningAddress(host: options.httpListen.host, port: options.httpListen.port),
            answers: answers,
            redirectingTo: origin,
            logger: logger,
            onListening: { _ in isListening.yield() }
        )
        let renewer = renewer(answers)
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await server.run() }
                group.addTask {
                    await cancelWhenGracefulShutdown {
                        // Validations would fail before the port is open.
                        for await _ in listening { return await renewer.run() }
                    }
                }
                try await group.next()
                group.cancelAll()
            }
        } catch let error as ListenError {
            try? await client.shutdown()
            throw CommandFailure(.failed, Self.words(error, options.httpListen))
        }
        try? await client.shutdown()
    }

    private static func words(_ error: ListenError, _ address: ListenAddress) -> String {
        let why =
            switch error {
            case .portTaken: "another program uses it. Stop that program."
            case .notAllowed: "this user may not. \(ListenError.lowPortRemedy)"
            default: error.description
            }
        return
            "The certificate authority's checks arrive at \(address) (acme-http-listen), but the relay cannot listen there: \(why) Or forward port 80 to another one that you set as acme-http-listen."
    }

    private func renewer(_ answers: ChallengeAnswers) -> CertificateRenewer {
        let sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
        return CertificateRenewer(
            folder,
            email: email,
            directory: options.directory,
            environment: .init(
                client: ACMEClient(sleep: sleep, send: ACMEClient.transport(client, now: { Date() })),
                publish: { answers.publish($0.content, token: $0.token) },
                unpublish: { answers.removeAll() },
                now: { Date() },
                sleep: sleep,
                random: .system
            ),
            onEvent: report
        )
    }

    private func report(_ event: CertificateRenewer.Event) {
        let domain = folder.domain
        switch event {
        case .available:
            available.yield()
        case .requested:
            logger.notice("Requesting a certificate for \(domain) from \(options.directory).")
        case .obtained(let period):
            logger.notice("The certificate for \(domain) is valid until \(period.end.formatted(.iso8601)).")
        case .failed(let fault, let retry):
            logger.error("\(fault) Next attempt in \(Self.words(retry)).")
        }
    }

    private static func words(_ wait: Duration) -> String {
        let seconds = wait.components.seconds
        return seconds < 120
            ? "\(seconds) seconds" : seconds < 7_200 ? "\(seconds / 60) minutes" : "\(seconds / 3_600) hours"
    }

    /// Returns the server, which starts when there is a certificate.
    func gate(_ server: RelayServer) -> any Service { CertifiedServer(server: server, availability: availability) }

    private struct CertifiedServer: Service {
        let server: RelayServer
        let availability: AsyncStream<Void>

        func run() async throws {
            let isAvailable = await cancelWhenGracefulShutdown {
                for await _ in availability { return true }
                return false
            }
            if isAvailable { try await server.run() }
        }
    }
}

extension RelayMetrics {
    /// Registers the time at which the certificate expires, if the relay has one.
    func showCertificate(_ files: TLSFiles?) {
        guard let files else { return }
        show(
            "zonecast_certificate_expiry_timestamp_seconds",
            "When the relay's TLS certificate expires, in seconds since 1970; 0 without a usable certificate."
        ) {
            (try? files.end())?.timeIntervalSince1970 ?? 0
        }
    }
}
