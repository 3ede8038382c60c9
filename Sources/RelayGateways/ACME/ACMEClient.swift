package import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOHTTP1

/// Obtains certificates from an ACME server: performs what `CertificateIssuance` asks for.
package struct ACMEClient: Sendable {
    /// Sends a request; throws if there is no complete response.
    package typealias Transport = @Sendable (ACMERequest) async throws -> ACMEResponse

    private let send: Transport
    private let sleep: @Sendable (Duration) async throws -> Void

    package init(sleep: @escaping @Sendable (Duration) async throws -> Void, send: @escaping Transport) {
        self.send = send
        self.sleep = sleep
    }

    /// Returns the certificate and its intermediate certificates in PEM.
    ///
    /// `publish` serves a challenge, which may be removed after the call. Throws `ACMEFault` or `CancellationError`.
    package func obtain(
        _ issuance: CertificateIssuance,
        publish: @Sendable (HTTPChallenge) -> Void
    ) async throws -> String {
        var issuance = issuance
        var event = CertificateIssuance.Event.started
        while true {
            switch issuance.handle(event) {
            case .send(let request):
                do {
                    event = .received(try await send(request))
                } catch let error as CancellationError {
                    throw error
                } catch {
                    event = .unreachable(reason(for: error))
                }
            case .publish(let challenge):
                publish(challenge)
                event = .published
            case .wait(let pause):
                try await sleep(pause)
                event = .waited
            case .complete(let chain):
                return chain
            case .fail(let fault):
                throw fault
            }
        }
    }

    /// Returns a transport over HTTPS; each request takes at most 30 seconds.
    ///
    /// `now` is for `Retry-After` fields with a date.
    package static func transport(_ client: HTTPClient, now: @escaping @Sendable () -> Date) -> Transport {
        { request in
            var sent = HTTPClientRequest(url: request.url)
            sent.headers.add(name: "user-agent", value: "zonecast")
            switch request.method {
            case .get: sent.method = .GET
            case .head: sent.method = .HEAD
            case .post(let body):
                sent.method = .POST
                sent.headers.add(name: "content-type", value: "application/jose+json")
                sent.body = .bytes(body)
            }
            let response = try await client.send(sent, timeout: .seconds(30))
            let body = try await response.body.collect(upTo: 256 * 1024)
            let headers = response.headers
            return ACMEResponse(
                status: Int(response.status.code),
                nonce: headers.first(name: "replay-nonce"),
                location: headers.first(name: "location"),
                retryAfter: headers.first(name: "retry-after").flatMap { wait($0, now: now()) },
                body: Array(buffer: body)
            )
        }
    }

    /// Returns the meaning of a `Retry-After` field: seconds, or a date (RFC 9110, section 10.2.3).
    package static func wait(_ field: String, now: Date) -> Duration? {
        if let seconds = Int64(field) { return .seconds(min(max(seconds, 0), 31_536_000)) }
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return format.date(from: field).map { .seconds(max($0.timeIntervalSince(now), 0)) }
    }
}
