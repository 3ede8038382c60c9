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
    package func answer(_ request: APIRequest) -> APIResponse? {
        guard request.path == "/metrics", request.method == .get, isOpen || isShown(request) else { return nil }
        var response = APIResponse(status: .ok, body: Array(metrics.text.utf8))
        response.headers[.contentType] = "text/plain; version=0.0.4; charset=utf-8"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func isShown(_ request: APIRequest) -> Bool {
        guard let token, let shown = request.headers[.authorization] else { return false }
        return ConstantTime.areEqual(Array("Bearer \(token)".utf8), Array(shown.utf8))
    }
}
