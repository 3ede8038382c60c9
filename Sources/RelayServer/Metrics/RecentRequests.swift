package import Foundation
import HTTPTypes
package import Records
package import RelayAPI
import RelayCore
import Synchronization

/// The latest requests for the console's log page: always the rejected ones, and all others while the page is open.
///
/// Like the log, it contains no query, no names of records, zones or people, and no client address. While the page is
/// closed, a successful request costs one atomic load.
package final class RecentRequests: Sendable {
    package struct Line: Codable, Sendable {
        package var number: Int
        package var at: Int64
        /// The response's `uuid`.
        package var id: String
        package var method: String
        /// The operation; for other requests, the path's first component.
        package var operation: String
        package var container: String?
        package var environment: String?
        package var database: String?
        /// Pseudonyms, as in the log.
        package var user: String?
        package var device: String?
        package var status: Int
        package var error: String?
        package var milliseconds: Double
        package var bytes: Int
    }

    fileprivate struct Lines: Codable {
        var lines: [Line] = []
        /// The index of the oldest line, once the ring buffer is full.
        var next = 0
        var count = 0
    }

    private static let kept = 2_000
    /// How long all requests are recorded after the page was last read.
    private static let watchDuration = Duration.seconds(60)

    private let lines = Mutex(Lines())
    /// The wall-clock time, in milliseconds, until which all requests are recorded.
    private let watchedUntil = Atomic<Int64>(0)
    package let names: Pseudonyms
    private let now: @Sendable () -> Timestamp

    package init(_ names: Pseudonyms, now: @escaping @Sendable () -> Timestamp) {
        self.names = names
        self.now = now
    }

    /// Records an answered request.
    package func note(_ response: APIResponse, to request: APIRequest, in time: Duration) {
        let isRefused = response.status.code >= 400
        let watched = watchedUntil.load(ordering: .relaxed)
        guard isRefused || watched > 0 else { return }
        let at = now()
        if !isRefused, at.milliseconds > watched {
            // The page has not been read for a while.
            _ = watchedUntil.compareExchange(expected: watched, desired: 0, ordering: .relaxed)
            return
        }
        let route = request.match?.route
        let name = HTTPField.Name("X-Apple-Request-UUID")
        let line = Line(
            number: 0,
            at: at.milliseconds,
            id: response.commonFields?.requestID ?? name.flatMap { response.otherHeaders[$0] } ?? "",
            method: "\(request.method)",
            operation: route?.operation.name ?? Self.folder(of: request.path),
            container: route?.home.container.name,
            environment: route?.home.environment.rawValue,
            database: route?.scope.pathName,
            user: response.caller?.user.map(names.of),
            device: response.caller.flatMap(names.ofDevice),
            status: response.status.code,
            error: response.errorCode?.rawValue,
            milliseconds: time.inSeconds * 1_000,
            bytes: response.sentLength
        )
        lines.withLock { $0.add(line, limit: Self.kept) }
    }

    /// Records a request that was rejected before it was routed.
    package func note(_ refused: RefusedRequest) {
        let line = Line(
            number: 0,
            at: now().milliseconds,
            id: refused.id,
            method: "",
            operation: "unread",
            status: refused.status,
            error: refused.error.rawValue,
            milliseconds: 0,
            bytes: 0
        )
        lines.withLock { $0.add(line, limit: Self.kept) }
    }

    /// Returns matching lines after `number`, newest first, `limit` at most; and records all requests for the next
    /// minute.
    ///
    /// A `number` greater than any line's is from before a restart, so all lines are new to the caller.
    package func look(
        after number: Int,
        limit: Int,
        where filter: (Line) -> Bool
    ) -> [Line] {
        watchedUntil.store((now() + Self.watchDuration).milliseconds, ordering: .relaxed)
        let (all, count) = lines.withLock { ($0.lines, $0.count) }
        let number = number > count ? 0 : number
        return Array(all.filter { $0.number > number && filter($0) }.sorted { $0.number > $1.number }.prefix(limit))
    }

    /// The lines in a form for `load`.
    package var saved: Data? { try? JSONEncoder().encode(lines.withLock { $0 }) }

    /// Continues with saved lines.
    ///
    /// Call before the first request. Ignores data of another version.
    package func load(_ saved: Data) {
        guard let loaded = try? JSONDecoder().decode(Lines.self, from: saved), loaded.lines.count <= Self.kept,
            loaded.next < Self.kept, loaded.count >= loaded.lines.count
        else { return }
        lines.withLock { $0 = loaded }
    }

    /// Returns the first component of a path that is no operation's: the rest may contain secrets.
    private static func folder(of path: String) -> String {
        "/" + (path.split(separator: "/").first.map { String($0.prefix(32)) } ?? "")
    }
}

extension RecentRequests.Lines {
    fileprivate mutating func add(_ line: RecentRequests.Line, limit: Int) {
        var line = line
        count += 1
        line.number = count
        guard lines.count == limit else { return lines.append(line) }
        lines[next] = line
        next = (next + 1) % limit
    }
}
