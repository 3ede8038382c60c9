import HTTPTypes

/// Conditional requests: a file that the client already has is not sent again.
extension APIRequest {
    /// Returns whether `If-None-Match` contains this entity tag, strong or weak, or `*`.
    ///
    /// See RFC 9110, 13.1.2.
    func holds(_ tag: String) -> Bool {
        guard let list = headers[.ifNoneMatch] else { return false }
        return list.split(separator: ",").contains { item in
            var item = item.drop { $0 == " " || $0 == "\t" }
            while item.last == " " || item.last == "\t" { item.removeLast() }
            return item == "*" || item == tag || item == "W/\(tag)"
        }
    }
}

extension APIResponse {
    /// The caching of assets: one hour, only in private caches.
    static let assetCaching = "private, max-age=3600"

    /// Returns the response that the client's copy with this tag is current.
    ///
    /// See RFC 9110, 15.4.5.
    static func notModified(_ tag: String) -> APIResponse {
        var response = APIResponse(status: .notModified)
        response.headers[.eTag] = tag
        response.headers[.cacheControl] = assetCaching
        return response
    }
}
