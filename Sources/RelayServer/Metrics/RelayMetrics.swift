import HTTPTypes
import Records
package import RelayAPI
import RelayCore
import Synchronization

/// The relay's metrics, served at `GET /metrics`.
///
/// Safe to call from any thread. A request costs one lock of its operation, held for nanoseconds.
package final class RelayMetrics: Sendable {
    private struct Requests {
        /// By HTTP status.
        var statuses: [Int: UInt64] = [:]
        var errors: [ErrorCode: UInt64] = [:]
        var times = Histogram.times
        var sentBytes: UInt64 = 0
    }

    private final class Operation: Sendable {
        let name: String
        let requests = Mutex(Requests())

        init(_ name: String) { self.name = name }
    }

    private struct Commits {
        var times = Histogram.times
        var batches = Histogram.batches
    }

    private let operations: [String: Operation]
    /// Pages, assets, long polls and unknown paths.
    private let others = Operation("other")
    /// Requests that were rejected before they were routed; their time is not measured.
    private let unread = Operation("unread")
    private let commits = Mutex(Commits())
    private let noticeTimes = Mutex(Histogram.times)
    private let queryNoticeTimes = Mutex(Histogram.times)
    private let gauges = Mutex<[Gauge]>([])
    private let families = Mutex<[Family]>([])

    /// A value that is computed when the metrics are read.
    private struct Gauge: Sendable {
        var name: String
        var help: String
        var kind: Kind
        var labels: [(String, String)]
        var value: @Sendable () -> Double
    }

    /// Values that differ in one label and are computed when the metrics are read.
    private struct Family: Sendable {
        var name: String
        var help: String
        var kind: Kind
        var label: String
        var values: @Sendable () -> [(label: String, value: Int)]
    }

    /// The type of a computed value.
    package enum Kind: String, Sendable {
        /// Goes up and down.
        case gauge
        /// Only grows; its name ends with `_total`.
        case counter
    }

    /// The name of this relay among those of a cluster, a label of every sample; `nil` for the only one.
    private let node: String?

    package init(node: String? = nil) {
        self.node = node
        operations = Dictionary(uniqueKeysWithValues: RouteEntry.operations.map { ($0.name, Operation($0.name)) })
    }

    /// Counts an answered request.
    ///
    /// - Parameters:
    ///   - entry: The endpoint; `nil` for an unknown path.
    ///   - response: The response.
    ///   - time: The time taken.
    package func answered(_ entry: RouteEntry?, _ response: APIResponse, in time: Duration) {
        let counted = entry.flatMap { operations[$0.name] } ?? others
        counted.requests.withLock {
            $0.statuses[response.status.code, default: 0] += 1
            if let error = response.errorCode { $0.errors[error, default: 0] += 1 }
            $0.times.observe(time / .seconds(1))
            $0.sentBytes += UInt64(response.bodyLength)
        }
    }

    /// Counts a request that was rejected before it was routed.
    package func refused(_ request: RefusedRequest) {
        unread.requests.withLock {
            $0.statuses[request.status, default: 0] += 1
            $0.errors[request.error, default: 0] += 1
        }
    }

    /// Counts a commit that contains the writes of `writes` requests.
    package func committed(_ writes: Int, in time: Duration) {
        commits.withLock {
            $0.times.observe(time / .seconds(1))
            $0.batches.observe(Double(writes))
        }
    }

    /// Counts a notice that was delivered to `devices` devices, `time` after its commit.
    package func delivered(_ devices: Int, after time: Duration) {
        noticeTimes.withLock { $0.observe(time / .seconds(1), times: devices) }
    }

    /// Counts a notice of a query subscription.
    package func deliveredOfQuery(_ devices: Int, after time: Duration) {
        queryNoticeTimes.withLock { $0.observe(time / .seconds(1), times: devices) }
    }

    /// Registers a value that is computed, on any thread, when the metrics are read.
    package func show(
        _ name: String,
        _ help: String,
        kind: Kind = .gauge,
        labels: [(String, String)] = [],
        _ value: @escaping @Sendable () -> Double
    ) {
        gauges.withLock { $0.append(Gauge(name: name, help: help, kind: kind, labels: labels, value: value)) }
    }

    /// Registers a whole number that is computed when the metrics are read.
    package func show(
        _ name: String,
        _ help: String,
        kind: Kind = .gauge,
        labels: [(String, String)] = [],
        count: @escaping @Sendable () -> Int
    ) {
        show(name, help, kind: kind, labels: labels) { Double(count()) }
    }

    /// Registers whole numbers with a label whose values may change while the relay runs.
    package func show(
        _ name: String,
        _ help: String,
        kind: Kind = .gauge,
        by label: String,
        _ values: @escaping @Sendable () -> [(label: String, value: Int)]
    ) {
        let family = Family(name: name, help: help, kind: kind, label: label, values: values)
        families.withLock { $0.append(family) }
    }

    /// Registers the lookups of the caches that serve requests; each is the name of a part and its counts.
    package func showCaches(_ parts: [(name: String, lookups: CacheLookups)]) {
        let what = "of request heads, credentials and missed notices"
        for (name, lookups) in parts {
            show(
                "zonecast_cache_hits_total",
                "Lookups \(what) that were known from earlier requests.",
                kind: .counter,
                labels: [("cache", name)],
                count: { lookups.hits }
            )
        }
        for (name, lookups) in parts {
            show(
                "zonecast_cache_misses_total",
                "Lookups \(what) that were not.",
                kind: .counter,
                labels: [("cache", name)],
                count: { lookups.misses }
            )
        }
    }

    /// The current values of all counters.
    package var reading: MetricsReading {
        var reading = MetricsReading()
        for operation in operations.values.sorted(by: { $0.name < $1.name }) + [others, unread] {
            let requests = operation.requests.withLock { $0 }
            guard !requests.statuses.isEmpty else { continue }
            var counted = MetricsReading.Operation(name: operation.name)
            counted.requests = requests.statuses.values.reduce(0, +)
            counted.errors = Dictionary(uniqueKeysWithValues: requests.errors.map { ($0.key.rawValue, $0.value) })
            counted.sentBytes = requests.sentBytes
            counted.times = requests.times
            reading.operations.append(counted)
        }
        let commits = commits.withLock { $0 }
        reading.commitTimes = commits.times
        reading.commits = commits.times.count
        reading.writes = UInt64(commits.batches.sum)
        reading.noticeTimes = noticeTimes.withLock { $0 }
        return reading
    }

    /// Returns the computed values by name.
    package func gaugeValues() -> [String: Int64] {
        Dictionary(gauges.withLock { $0 }.map { ($0.name, Int64($0.value())) }) { $1 }
    }

    /// Returns one computed value; `nil` if the name is unknown.
    package func gauge(_ name: String) -> Int64? {
        gauges.withLock { $0.last { $0.name == name } }.map { Int64($0.value()) }
    }

    // MARK: The text

    /// The metrics in Prometheus's text format.
    package var text: String {
        var text = MetricsText(node: node)
        let counted = (operations.values.sorted { $0.name < $1.name } + [others, unread])
            .map { ($0.name, $0.requests.withLock { $0 }) }.filter { !$0.1.statuses.isEmpty }
        text.family("zonecast_requests_total", "counter", "Requests answered, by operation and HTTP status.")
        for (name, requests) in counted {
            for (status, count) in requests.statuses.sorted(by: { $0.key < $1.key }) {
                text.sample("zonecast_requests_total", ["operation": name, "status": "\(status)"], count)
            }
        }
        text.family("zonecast_request_errors_total", "counter", "Requests that failed as a whole, by serverErrorCode.")
        for (name, requests) in counted {
            for (code, count) in requests.errors.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                text.sample("zonecast_request_errors_total", ["operation": name, "code": code.rawValue], count)
            }
        }
        text.family("zonecast_response_bytes_total", "counter", "Bytes of response bodies, before compression.")
        for (name, requests) in counted {
            text.sample("zonecast_response_bytes_total", ["operation": name], requests.sentBytes)
        }
        text.family("zonecast_request_seconds", "histogram", "From the complete request to its response.")
        for (name, requests) in counted {
            text.samples("zonecast_request_seconds", [("operation", name)], of: requests.times)
        }
        add(commits.withLock { $0 }, to: &text)
        text.family(
            "zonecast_notice_seconds",
            "histogram",
            "From a commit to the delivery of its notice to a device's socket, without query notices."
        )
        text.samples("zonecast_notice_seconds", of: noticeTimes.withLock { $0 })
        text.family(
            "zonecast_query_notice_seconds",
            "histogram",
            "From a commit to the delivery of a query notice to a device's socket."
        )
        text.samples("zonecast_query_notice_seconds", of: queryNoticeTimes.withLock { $0 })
        var latest = ""
        for gauge in gauges.withLock({ $0 }) {
            // Values that differ only in their labels are registered one after the other and form one family.
            if gauge.name != latest { text.family(gauge.name, gauge.kind.rawValue, gauge.help) }
            latest = gauge.name
            text.sample(gauge.name, gauge.labels, gauge.value())
        }
        for family in families.withLock({ $0 }) {
            let values = family.values()
            if !values.isEmpty { text.family(family.name, family.kind.rawValue, family.help) }
            for (label, value) in values { text.sample(family.name, [(family.label, label)], Double(value)) }
        }
        return text.text
    }

    private func add(_ commits: Commits, to text: inout MetricsText) {
        text.family("zonecast_commit_seconds", "histogram", "From the start of a commit until it is durable.")
        text.samples("zonecast_commit_seconds", of: commits.times)
        text.family("zonecast_commit_writes", "histogram", "Write requests that shared one commit.")
        text.samples("zonecast_commit_writes", of: commits.batches)
    }
}

/// Metrics in Prometheus's text format.
struct MetricsText {
    private(set) var text = ""
    /// The labels that every sample has.
    private let common: [(String, String)]

    init(node: String? = nil) { common = node.map { [("node", $0)] } ?? [] }

    typealias Labels = KeyValuePairs<String, String>

    /// Starts a metric family; its samples follow.
    mutating func family(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    /// Writes a sample; whole numbers have no fraction.
    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        let list = list(labels)
        let number = Int64(exactly: value).map { "\($0)" } ?? "\(value)"
        text += "\(name)\(list.isEmpty ? "" : "{\(list)}") \(number)\n"
    }

    mutating func sample(_ name: String, _ labels: Labels = [:], _ value: some CustomStringConvertible) {
        let list = list(labels.map { ($0, $1) })
        text += "\(name)\(list.isEmpty ? "" : "{\(list)}") \(value)\n"
    }

    /// Writes the samples of a histogram.
    mutating func samples(_ name: String, _ labels: [(String, String)] = [], of histogram: Histogram) {
        var count: UInt64 = 0
        let list = list(labels)
        let own = list.isEmpty ? "" : list + ","
        for (bound, more) in zip(histogram.bounds.map { "\($0)" } + ["+Inf"], histogram.counts) {
            count += more
            text += "\(name)_bucket{\(own)le=\"\(bound)\"} \(count)\n"
        }
        let braced = list.isEmpty ? "" : "{\(list)}"
        text += "\(name)_sum\(braced) \(histogram.sum)\n\(name)_count\(braced) \(count)\n"
    }

    private func list(_ labels: [(String, String)]) -> String {
        (common + labels).map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

/// The endpoint `GET /metrics`, for requests with the bearer token, or without one on a relay that accepts dev tokens.
///
/// For all other requests nothing is at the path.
package struct MetricsEndpoint: Sendable {
    private let metrics: RelayMetrics
    private let token: String?
    private let isOpen: Bool
    private let executor = DiskExecutor()

    /// - Parameters:
    ///   - metrics: The metrics to serve.
    ///   - token: The required bearer token; `nil` disables access by token.
    ///   - isOpen: Whether no token is required.
    package init(_ metrics: RelayMetrics, token: String?, isOpen: Bool) {
        self.metrics = metrics
        self.token = token
        self.isOpen = isOpen
    }

    package var entry: RouteEntry {
        .page("metrics", .whole("/metrics"), [.get], isMonitored: false) { request, _ in await answer(request) }
    }

    private func answer(_ request: APIRequest) async -> APIResponse? {
        guard isOpen || isShown(request) else { return nil }
        // The gauges read every store's files and all descriptors.
        let text = await withTaskExecutorPreference(executor) { [metrics] in await Self.text(of: metrics) }
        var response = APIResponse(status: .ok, body: Array(text.utf8))
        response.headers[.contentType] = "text/plain; version=0.0.4; charset=utf-8"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private static func text(of metrics: RelayMetrics) async -> String { metrics.text }

    private func isShown(_ request: APIRequest) -> Bool {
        guard let token, let shown = request.headers[.authorization] else { return false }
        return ConstantTime.areEqual(Array("Bearer \(token)".utf8), Array(shown.utf8))
    }
}
