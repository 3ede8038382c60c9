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

/// The key source of relays without foreign issuers.
package struct NoKeySource: KeySource {
    package init() {}
    package func fetch(_ address: String) async throws(TokenFault) -> [UInt8] { throw .keys("Not supported here.") }
    package func read(file: String) async throws(TokenFault) -> [UInt8] { throw .keys("Not supported here.") }
}

/// When keys are fetched, and their maximum size.
package struct KeyLimits: Sendable {
    /// The maximum size of one response or file in bytes.
    ///
    /// See Reliability.md, "Outgoing requests".
    package static let bytes = 256 * 1024
    /// How long fetched keys are used before they are fetched again.
    package var lifetime = Duration.seconds(3600)
    /// The minimum time between two fetches from one issuer, even for unknown key identifiers and after failures.
    ///
    /// Otherwise a client with forged tokens could make the relay send requests to the issuer.
    package var pause = Duration.seconds(60)
    /// How long keys are used if they cannot be fetched again.
    ///
    /// Users can sign in while an issuer is down, but a key that a compromised issuer has withdrawn must expire.
    package var staleLifetime = Duration.seconds(24 * 3600)

    package init() {}
}

/// The cached keys of each issuer.
///
/// At most one fetch per issuer runs at a time; concurrent callers wait for its result.
package actor IssuerKeys {
    private struct Shelf {
        var keys: IssuerKeySet?
        /// By uptime.
        var fetched = Duration.zero
        /// When the latest fetch began; `nil`: never.
        var tried: Duration?
        var running: Task<Result<IssuerKeySet, TokenFault>, Never>?
        var fault = TokenFault.keys("They were not fetched yet.")
    }

    private let source: any KeySource
    private let limits: KeyLimits
    private let time: TimeSource
    /// Bounded by the operator: one entry per key source in the configuration.
    private var shelves: [ForeignIssuer.KeyPlace: Shelf] = [:]

    package init(source: any KeySource, limits: KeyLimits, time: TimeSource) {
        self.source = source
        self.limits = limits
        self.time = time
    }

    /// Returns the issuer's keys.
    ///
    /// Fetches them if they are too old, or if none of them matches `algorithm` and `keyID`, since issuers add new keys
    /// to old ones.
    func keys(
        of issuer: ForeignIssuer,
        for algorithm: ForeignIssuer.Algorithm,
        keyID: String?
    ) async throws(TokenFault) -> IssuerKeySet {
        let shelf = shelves[issuer.keys] ?? Shelf()
        let age = time.uptime() - shelf.fetched
        if let keys = shelf.keys, age < lifetime(issuer.keys), !keys.candidates(algorithm, id: keyID).isEmpty {
            return keys
        }
        if shelf.running != nil || mayFetch(shelf) {
            let result = await fetched(issuer)
            if case .success(let keys) = result { return keys }
        }
        let now = shelves[issuer.keys] ?? shelf
        if let keys = now.keys, time.uptime() - now.fetched < limits.staleLifetime { return keys }
        throw now.fault
    }

    /// A file is read again sooner, because reading it is the only way to detect a change.
    private func lifetime(_ place: ForeignIssuer.KeyPlace) -> Duration {
        switch place {
        case .url: limits.lifetime
        case .file: limits.pause
        }
    }

    private func mayFetch(_ shelf: Shelf) -> Bool {
        // Without any keys no sign-in is possible, so the pause is short.
        let pause = shelf.keys == nil ? min(limits.pause, .seconds(5)) : limits.pause
        return shelf.tried.map { time.uptime() - $0 >= pause } ?? true
    }

    private func fetched(_ issuer: ForeignIssuer) async -> Result<IssuerKeySet, TokenFault> {
        if let running = shelves[issuer.keys]?.running { return await running.value }
        let source = source
        let task = Task { await Self.load(issuer, from: source) }
        shelves[issuer.keys, default: Shelf()].running = task
        shelves[issuer.keys]?.tried = time.uptime()
        let result = await task.value
        shelves[issuer.keys]?.running = nil
        switch result {
        case .success(let keys):
            shelves[issuer.keys]?.keys = keys
            shelves[issuer.keys]?.fetched = time.uptime()
        case .failure(let fault): shelves[issuer.keys]?.fault = fault
        }
        return result
    }

    /// Reads an issuer's current keys without the cache.
    package static func load(
        _ issuer: ForeignIssuer,
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
