import HTTPTypes
package import RelayAPI
import RelayCore

/// The endpoint `GET /metrics`, for requests with the bearer token, or without one on a relay that accepts dev tokens.
///
/// For all other requests the path does not exist.
package struct MetricsDoor: Sendable {
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

    /// Returns the response; `nil` if the request is for another path or not authorized.
    package func answer(_ request: APIRequest) async -> APIResponse? {
        guard request.path == "/metrics", request.method == .get, isOpen || isShown(request) else { return nil }
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
