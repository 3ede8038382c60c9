import Crypto
package import Foundation
package import RelayCore

/// Obtains the certificate of one domain, and renews it before it expires.
package struct CertificateRenewer: Sendable {
    package enum Event: Hashable, Sendable {
        /// There is a certificate that the relay can serve with.
        case available
        case requested
        case obtained(CertificatePeriod)
        case failed(ACMEFault, retry: Duration)
    }

    /// What the renewer needs from outside.
    package struct Environment: Sendable {
        let client: ACMEClient
        let publish: @Sendable (HTTPChallenge) -> Void
        let unpublish: @Sendable () -> Void
        let now: @Sendable () -> Date
        let sleep: @Sendable (Duration) async throws -> Void
        let random: RandomSource

        /// `publish` serves a challenge on port 80 of the domain, and `unpublish` removes all; `now` is the wall clock.
        package init(
            client: ACMEClient,
            publish: @escaping @Sendable (HTTPChallenge) -> Void,
            unpublish: @escaping @Sendable () -> Void,
            now: @escaping @Sendable () -> Date,
            sleep: @escaping @Sendable (Duration) async throws -> Void,
            random: RandomSource
        ) {
            self.client = client
            self.publish = publish
            self.unpublish = unpublish
            self.now = now
            self.sleep = sleep
            self.random = random
        }
    }

    private struct Generator: RandomNumberGenerator {
        let source: RandomSource

        func next() -> UInt64 { source.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }
    }

    /// How often the wall clock is compared with the time of the renewal: it may be set, and machines sleep.
    private static let checkInterval = Duration.seconds(3_600)

    private let folder: CertificateFolder
    private let email: String
    private let directory: String
    private let environment: Environment
    private let onEvent: @Sendable (Event) -> Void

    package init(
        _ folder: CertificateFolder,
        email: String,
        directory: String,
        environment: Environment,
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        self.folder = folder
        self.email = email
        self.directory = directory
        self.environment = environment
        self.onEvent = onEvent
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var schedule = RenewalSchedule()
        var generator = Generator(source: environment.random)
        try? await waitForRateLimit()
        while !Task.isCancelled {
            do {
                // A certificate of another authority, for example of a staging directory, is replaced at once.
                if let period = folder.period {
                    onEvent(.available)
                    let isCurrent = folder.status.map { $0.directory == directory } ?? true
                    let renewal = RenewalSchedule.renewal(of: period, using: &generator)
                    if isCurrent { try await sleep(until: renewal) }
                }
                onEvent(.requested)
                onEvent(.obtained(try await obtain()))
                schedule.succeeded()
            } catch let fault as ACMEFault {
                let wait = schedule.failed(fault, using: &generator)
                note(fault, retry: wait)
                onEvent(.failed(fault, retry: wait))
                try? await environment.sleep(wait)
            } catch {
                return
            }
        }
    }

    private func obtain() async throws -> CertificatePeriod {
        defer { environment.unpublish() }
        let key = P256.Signing.PrivateKey()
        let issuance = CertificateIssuance(
            domain: folder.domain,
            email: email,
            directory: directory,
            accountKey: try folder.accountKey(),
            signingRequest: try SigningRequest.der(for: folder.domain, key)
        )
        let chain = try await environment.client.obtain(issuance, publish: environment.publish)
        let period = try SigningRequest.period(of: chain, domain: folder.domain, key)
        try folder.save(chain, key)
        try folder.save(CertificateFolder.Status(directory: directory))
        return period
    }

    private func note(_ fault: ACMEFault, retry: Duration) {
        let status = CertificateFolder.Status(
            // A present certificate is still that of the earlier directory.
            directory: folder.period == nil ? directory : folder.status?.directory ?? directory,
            fault: fault.found,
            remedy: fault.remedy,
            nextAttempt: environment.now() + retry / .seconds(1),
            isRateLimited: fault.code == .rateLimited
        )
        // The fault is logged as well, so a full disk loses only the doctor's copy.
        try? folder.save(status)
    }

    private func waitForRateLimit() async throws {
        guard folder.period == nil, let status = folder.status, status.directory == directory,
            status.isRateLimited == true, let next = status.nextAttempt
        else { return }
        try await sleep(until: next)
    }

    private func sleep(until date: Date) async throws {
        while true {
            let rest = date.timeIntervalSince(environment.now())
            guard rest > 0 else { return }
            try await environment.sleep(min(.seconds(rest), Self.checkInterval))
        }
    }
}
