#if canImport(FoundationNetworking)
    import AsyncHTTPClient
    import Foundation
    import NIOHTTP1
    import Records

    extension HTTPClientRequest {
        /// Returns the request to send after a redirect, or `nil` if the response is not a redirect.
        ///
        /// Throws `TransportError.unreachable` if the port is not valid, because the library would trap on it.
        func redirected(by response: HTTPClientResponse) throws(TransportError) -> HTTPClientRequest? {
            guard Self.redirects.contains(response.status.code), let here = URL(string: url),
                let place = response.headers.first(name: "Location"),
                let there = URL(string: place, relativeTo: here)?.absoluteURL, ["http", "https"].contains(there.scheme)
            else { return nil }
            guard NetworkTransport.isPortUsable(in: there) else {
                throw .unreachable("The relay redirects to a URL whose port is not between 1 and 65535.")
            }
            var next = self
            next.url = there.absoluteString
            if response.status == .seeOther || (method == .POST && [301, 302].contains(response.status.code)) {
                next.method = .GET
                next.body = nil
                for name in ["Content-Length", "Content-Type"] { next.headers.remove(name: name) }
            }
            if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port) {
                for name in Self.secrets { next.headers.remove(name: name) }
            }
            return next
        }

        private static let redirects: Set<UInt> = [301, 302, 303, 307, 308]
        /// Headers that must not be sent to another server.
        private static let secrets = ["Authorization", "Cookie", "Origin", "Proxy-Authorization"]
    }
#endif
