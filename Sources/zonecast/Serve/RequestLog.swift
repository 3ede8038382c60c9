import Foundation
import HTTPTypes
import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore
import Synchronization

/// A line for each request or each refused one, with its identifier and without anything private: no query, no name of a
/// record, zone or person, no address of a client.
///
/// Users and devices go by pseudonyms.
final class RequestLog: Sendable {
    /// Which requests have a line.
    enum Scope: Sendable {
        case all
        /// Those whose answer has a `uuid` to be looked for, while there are few; what is the relay's own fault is told
        /// elsewhere.
        case refused
    }

    private struct Refusals {
        var allowance: TokenBucket
        /// Since the last line.
        var unwritten = 0
    }

    /// So many refusals have lines where nobody asked for lines of all requests: no stranger is to fill the disk.
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

    /// Notes an answered request, and how long the answer took to make.
    func note(_ response: APIResponse, to request: APIRequest, in time: Duration) {
        let isRefused = response.errorCode != nil && response.status.code < 500
        guard scope == .all || isRefused, let missing = admit() else { return }
        var facts: Logger.Metadata = [
            "request": "\(response.usual?.requestID ?? response.otherHeaders[.requestUUID] ?? "-")",
            "method": "\(request.method)",
            // The query holds tokens and stays out.
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

    /// Notes a request that was turned away unread.
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

    /// How many refusals before this one have no line; `nil` where this one has none either.
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

    /// The address of an asset or of a share is as good as a key, so it is cut.
    static func loggable(_ path: String) -> String {
        for secret in ["/asset/1/", "/share/"] {
            guard let start = path.firstRange(of: secret) else { continue }
            let rest = path[start.upperBound...].prefix { $0 != "/" }
            return path[..<start.upperBound] + rest + "/…"
        }
        return path
    }
}
