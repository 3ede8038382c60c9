import Foundation
import HTTPTypes
import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelaySystem
import Synchronization

/// Logs a line for each request, or for each refused one, with its request ID and nothing private.
///
/// Queries, names of records, zones and people, and client addresses are left out. Users and devices are logged as
/// pseudonyms.
final class RequestLog: Sendable {
    /// Which requests are logged.
    enum Scope: Sendable {
        case all
        /// Client errors, up to a rate limit, so that the `uuid` of an error response can be found; server errors are
        /// logged elsewhere.
        case refused
    }

    private struct Refusals {
        var allowance: TokenBucket
        /// Refusals since the last line that were not logged.
        var unwritten = 0
    }

    /// The rate of lines in scope `refused`, so that a client cannot fill the disk with refused requests.
    private static let rate = RateLimit(perSecond: 1, burst: 60)

    private let logger: Logger
    private let names: Pseudonyms
    private let uptime: @Sendable () -> Duration
    private let scope: Scope
    private let refusals: Mutex<Refusals>

    init(
        _ logger: Logger,
        _ names: Pseudonyms,
        of scope: Scope,
        uptime: @escaping @Sendable () -> Duration = TimeSource.system.uptime
    ) {
        self.logger = logger
        self.names = names
        self.uptime = uptime
        self.scope = scope
        refusals = Mutex(Refusals(allowance: TokenBucket(Self.rate, at: uptime())))
    }

    /// Logs an answered request with the time that the response took.
    func note(_ response: APIResponse, to request: APIRequest, in time: Duration) {
        let isRefused = response.errorCode != nil && response.status.code < 500
        guard scope == .all || isRefused, let missing = admit() else { return }
        var facts: Logger.Metadata = [
            "request": "\(response.commonFields?.requestID ?? response.otherHeaders[.requestUUID] ?? "-")",
            "method": "\(request.method)",
            // The query contains tokens and is left out.
            "path": "\(Self.loggable(request.path))",
            "status": .stringConvertible(response.status.code),
            "ms": .stringConvertible((time.milliseconds * 10).rounded() / 10),
            "bytes": .stringConvertible(response.sentLength),
        ]
        if let code = response.errorCode { facts["error"] = "\(code.rawValue)" }
        if let caller = response.caller {
            facts["user"] = caller.user.map { "\(names.of($0))" }
            facts["device"] = names.ofDevice(caller).map { "\($0)" }
        }
        write(facts, missing)
    }

    /// Logs a request that the server rejected before reading it.
    func note(_ refused: RefusedRequest) {
        guard let missing = admit() else { return }
        let facts: Logger.Metadata = [
            "request": "\(refused.id)",
            "status": .stringConvertible(refused.status),
            "error": "\(refused.error.rawValue)",
            "reason": "\(refused.reason)",
        ]
        write(facts, missing)
    }

    /// Returns how many refusals before this one were not logged; `nil` if this one is not logged either.
    private func admit() -> Int? {
        guard scope == .refused else { return 0 }
        let now = uptime()
        return refusals.withLock { refusals in
            guard refusals.allowance.take(Self.rate, at: now) == nil else {
                refusals.unwritten += 1
                return nil
            }
            defer { refusals.unwritten = 0 }
            return refusals.unwritten
        }
    }

    private func write(_ facts: Logger.Metadata, _ missing: Int) {
        var facts = facts
        if missing > 0 { facts["unlogged"] = .stringConvertible(missing) }
        logger.info("request", metadata: facts)
    }

    /// Shortens a path: the rest of an asset or share address grants access, so it is cut.
    static func loggable(_ path: String) -> String {
        for secret in ["/asset/1/", "/share/"] {
            guard let start = path.firstRange(of: secret) else { continue }
            let rest = path[start.upperBound...].prefix { $0 != "/" }
            return path[..<start.upperBound] + rest + "/…"
        }
        return path
    }
}
