import HTTPTypes
package import RelayAPI
import RelayCore

/// `GET /metrics`: for whoever shows the token, or for anybody on a relay that takes dev tokens.
///
/// To all others there is nothing at that path.
package struct MetricsDoor: Sendable {
    private let metrics: RelayMetrics
    private let token: String?
    private let isOpen: Bool
    private let executor = DiskExecutor()

    /// - Parameters:
    ///   - metrics: what is shown.
    ///   - token: the bearer token that opens it; `nil` keeps it shut.
    ///   - isOpen: whether it needs no token.
    package init(_ metrics: RelayMetrics, token: String?, isOpen: Bool) {
        self.metrics = metrics
        self.token = token
        self.isOpen = isOpen
    }

    /// The answer; `nil` for every other request.
    package func answer(_ request: APIRequest) async -> APIResponse? {
        guard request.path == "/metrics", request.method == .get, isOpen || isShown(request) else { return nil }
        // It looks at every store's files and all descriptors.
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
