package import RelayCore

/// Where the bytes of issuers' keys come from: the network and the operator's files, kept out of what decides.
package protocol KeySource: Sendable {
    /// The body of a GET by https.
    ///
    /// Follows no redirect, waits some seconds at most, and takes at most `KeyLimits.bytes`. Throws `TokenFault.keys`.
    func fetch(_ address: String) async throws(TokenFault) -> [UInt8]
    /// A file's content, at most `KeyLimits.bytes` of it.
    ///
    /// Throws `TokenFault.keys`.
    func read(file: String) async throws(TokenFault) -> [UInt8]
}

/// For relays that trust nobody but themselves.
package struct NoKeySource: KeySource {
    package init() {}
    package func fetch(_ address: String) async throws(TokenFault) -> [UInt8] { throw .keys("Not on this relay.") }
    package func read(file: String) async throws(TokenFault) -> [UInt8] { throw .keys("Not on this relay.") }
}

/// When keys are fetched, and how much of them.
package struct KeyLimits: Sendable {
    /// Of one answer or file.
    ///
    /// See Reliability.md, "Outgoing requests".
    package static let bytes = 256 * 1024
    /// How long fetched keys serve before they are fetched again.
    package var lifetime = Duration.seconds(3600)
    /// Between two fetches from one issuer, whatever unknown keys tokens name and however often it fails.
    ///
    /// Otherwise anybody who sends made-up tokens makes the relay call the issuer.
    package var pause = Duration.seconds(60)
    /// How long keys serve that cannot be fetched again.
    ///
    /// An issuer that is down should keep nobody out; a key withdrawn by one that was taken over must end.
    package var staleLifetime = Duration.seconds(24 * 3600)

    package init() {}
}

/// The keys of each issuer, kept and refreshed.
///
/// One fetch for an issuer goes on at a time; whoever comes meanwhile waits for it.
package actor IssuerKeys {
    private struct Shelf {
        var keys: IssuerKeySet?
        /// By uptime.
        var fetched = Duration.zero
        /// When a fetch was last begun; `nil`: never.
        var tried: Duration?
        var running: Task<Result<IssuerKeySet, TokenFault>, Never>?
        var fault = TokenFault.keys("They were not asked for yet.")
    }

    private let source: any KeySource
    private let limits: KeyLimits
    private let time: TimeSource
    /// Bounded by the operator: one for each place that some issuer names.
    private var shelves: [ForeignIssuer.KeyPlace: Shelf] = [:]

    package init(source: any KeySource, limits: KeyLimits, time: TimeSource) {
        self.source = source
        self.limits = limits
        self.time = time
    }

    /// The issuer's keys, fresh enough; if none of them can have signed a token of `algorithm` and `keyID`, asks once
    /// more, as issuers put new keys beside old ones.
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

    /// A file is looked at again sooner, for nothing in it may tell that it has changed.
    private func lifetime(_ place: ForeignIssuer.KeyPlace) -> Duration {
        switch place {
        case .url: limits.lifetime
        case .file: limits.pause
        }
    }

    private func mayFetch(_ shelf: Shelf) -> Bool {
        // With no keys at all nobody gets in, so the pause is short.
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

    /// Reads an issuer's keys as they are now, nothing kept.
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
