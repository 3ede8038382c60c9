package import RelayCore

/// Reads the keys of issuers from the network and from the operator's files.
package protocol KeySource: Sendable {
    /// Returns the body of a GET request by https.
    ///
    /// Follows no redirects, waits for a few seconds at most, and accepts at most `KeyLimits.bytes`. Throws
    /// `TokenFault.keys`.
    func fetch(_ address: String) async throws(TokenFault) -> [UInt8]
    /// Returns the content of a file, at most `KeyLimits.bytes`.
    ///
    /// Throws `TokenFault.keys`.
    func read(file: String) async throws(TokenFault) -> [UInt8]
}

/// When keys are fetched, and their maximum size.
package struct KeyLimits: Sendable {
    /// The maximum size of one response or file in bytes.
    ///
    /// See Reliability.md, "Outgoing requests".
    package static let bytes = 256 * 1024
    /// How long fetched keys are used before they are fetched again.
    package var lifetime = Duration.seconds(3600)
    /// The minimum time between two fetches from one issuer, even for unknown key identifiers, for failing signatures and
    /// after failures.
    ///
    /// Otherwise a client with forged tokens could make the relay send requests to the issuer.
    package var pause = Duration.seconds(60)
    /// How long keys are used if they cannot be fetched again.
    ///
    /// Users can sign in while an issuer is down, but a key that a compromised issuer has withdrawn must expire.
    package var staleLifetime = Duration.seconds(24 * 3600)
    /// How long the keys of a file are used before it is read again, and the minimum time between two reads for tokens
    /// that match none of them.
    package var fileLifetime = Duration.seconds(1)

    package init() {}
}

/// The cached keys of each issuer.
///
/// At most one fetch per key source runs at a time; concurrent callers wait for its result. Keys that were fetched before an
/// operator changed the issuer are never used again.
package actor IssuerKeys {
    /// Keys, and which fetch brought them.
    struct Fetched: Sendable {
        var keys: IssuerKeySet
        /// Counts up with each fetch.
        var number: Int
        /// In uptime.
        fileprivate var at: Duration
    }

    private struct Shelf {
        /// The newest revision of an issuer that named the place.
        var revision: UInt64
        var fetched: Fetched?
        /// When the latest fetch began; `nil`: never.
        var tried: Duration?
        /// When a token was last the reason for a fetch; `nil`: never.
        var doubted: Duration?
        var running: Task<Result<Fetched, TokenFault>, Never>?
        var fault = TokenFault.keys("They were not fetched yet.")
    }

    private let source: any KeySource
    private let limits: KeyLimits
    private let time: TimeSource
    private var fetches = 0
    /// Bounded by the operator: one entry per key source in the configuration.
    private var shelves: [TokenIssuer.KeyLocation: Shelf] = [:]

    package init(source: any KeySource, limits: KeyLimits, time: TimeSource) {
        self.source = source
        self.limits = limits
        self.time = time
    }

    /// Returns the issuer's keys if they are fresh enough.
    func keys(of trusted: TrustedIssuer) async throws(TokenFault) -> Fetched {
        let shelf = shelf(of: trusted)
        if let fetched = shelf.fetched, time.uptime() - fetched.at < lifetime(trusted.issuer.keys) { return fetched }
        if shelf.running != nil || mayFetch(shelf, for: trusted.issuer.keys),
            case .success(let fetched) = await fetch(for: trusted)
        {
            return fetched
        }
        let now = shelves[trusted.issuer.keys] ?? shelf
        if let fetched = now.fetched, time.uptime() - fetched.at < limits.staleLifetime { return fetched }
        throw now.fault
    }

    /// Fetches once more after a token that no key of `used` can have signed, since issuers rotate their keys.
    ///
    /// `nil` if there are no newer keys, or it is too early to ask for them.
    func keys(of trusted: TrustedIssuer, newerThan used: Fetched) async -> Fetched? {
        let shelf = shelf(of: trusted)
        if let fetched = shelf.fetched, fetched.number > used.number { return fetched }
        guard shelf.running != nil || mayLookAgain(shelf, at: trusted.issuer.keys) else { return nil }
        shelves[trusted.issuer.keys]?.doubted = time.uptime()
        return try? await fetch(for: trusted).get()
    }

    /// Returns an empty set if the operator has changed the issuer since.
    private func shelf(of trusted: TrustedIssuer) -> Shelf {
        if let shelf = shelves[trusted.issuer.keys], shelf.revision >= trusted.revision { return shelf }
        let empty = Shelf(revision: trusted.revision)
        shelves[trusted.issuer.keys] = empty
        return empty
    }

    private func lifetime(_ place: TokenIssuer.KeyLocation) -> Duration {
        switch place {
        case .url: limits.lifetime
        case .file: limits.fileLifetime
        }
    }

    private func mayFetch(_ shelf: Shelf, for place: TokenIssuer.KeyLocation) -> Bool {
        // Without keys all sign-ins fail, so the pause is short.
        let pause =
            switch place {
            case .url: shelf.fetched == nil ? min(limits.pause, .seconds(5)) : limits.pause
            case .file: limits.fileLifetime
            }
        return hasPassed(pause, since: shelf.tried)
    }

    /// Each call to an issuer counts, but reading a file that was read a moment ago costs little.
    private func mayLookAgain(_ shelf: Shelf, at place: TokenIssuer.KeyLocation) -> Bool {
        switch place {
        case .url: hasPassed(limits.pause, since: shelf.tried)
        case .file: hasPassed(limits.fileLifetime, since: shelf.doubted)
        }
    }

    private func hasPassed(_ pause: Duration, since uptime: Duration?) -> Bool {
        uptime.map { time.uptime() - $0 >= pause } ?? true
    }

    private func fetch(for trusted: TrustedIssuer) async -> Result<Fetched, TokenFault> {
        var shelf = shelf(of: trusted)
        if let running = shelf.running { return await running.value }
        fetches += 1
        let (source, time, number) = (source, time, fetches)
        let task = Task {
            await Self.load(trusted.issuer, from: source).map { Fetched(keys: $0, number: number, at: time.uptime()) }
        }
        shelf.running = task
        shelf.tried = time.uptime()
        shelves[trusted.issuer.keys] = shelf
        let result = await task.value
        // If the issuer was changed during the fetch, the result is used only for the requests that wait for it.
        guard var now = shelves[trusted.issuer.keys], now.revision == shelf.revision else { return result }
        now.running = nil
        switch result {
        case .success(let fetched): now.fetched = fetched
        case .failure(let fault): now.fault = fault
        }
        shelves[trusted.issuer.keys] = now
        return result
    }

    /// Reads an issuer's current keys without the cache.
    package static func load(
        _ issuer: TokenIssuer,
        from source: any KeySource
    ) async -> Result<IssuerKeySet, TokenFault> {
        do throws(TokenFault) {
            switch issuer.keys {
            case .url(let address): return .success(try IssuerKeySet(published: await source.fetch(address)))
            case .file(let path):
                return .success(
                    try IssuerKeySet(
                        file: await source.read(file: path),
                        isSecret: issuer.algorithms.contains(.hs256)
                    )
                )
            }
        } catch {
            return .failure(error)
        }
    }
}
