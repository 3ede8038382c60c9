import HTTPTypes

/// What a client says to have already is not sent again.
extension APIRequest {
    /// Whether `If-None-Match` names this entity tag, alone or among others, strong or weak, or any.
    ///
    /// RFC 9110, 13.1.2.
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
    /// How long an asset may be kept, and by whom.
    static let assetCaching = "private, max-age=3600"

    /// Says that what the client has of this tag is still what it would get.
    ///
    /// RFC 9110, 15.4.5.
    static func notModified(_ tag: String) -> APIResponse {
        var response = APIResponse(status: .notModified)
        response.headers[.eTag] = tag
        response.headers[.cacheControl] = assetCaching
        return response
    }
}
