package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Records
package import RelayCore

/// Fetches the keys of identity token issuers by HTTPS or from files.
///
/// See Reliability.md, "Outgoing requests": HTTPS only, no redirects, 5 seconds, 256 KiB. The operator chooses the
/// host, so hosts in private networks are allowed.
package struct KeyFetch: KeySource {
    /// Created by the first fetch, since most relays never need one; lives as long as the process.
    private static let sharedClient = HTTPClient(
        eventLoopGroupProvider: .singleton,
        configuration: .outgoing(connect: .seconds(5), read: .seconds(5))
    )

    private let client: HTTPClient?
    private let limit: Duration

    /// - Parameters:
    ///   - client: The client, which the caller shuts down; by default one for the whole process.
    ///   - limit: The maximum duration of a request, with its whole response.
    package init(client: HTTPClient? = nil, limit: Duration = .seconds(5)) {
        self.client = client
        self.limit = limit
    }

    package func fetch(_ address: String) async throws(TokenFault) -> [UInt8] {
        guard let url = URL(string: address), url.scheme == "https", url.host != nil else {
            throw .keys("\(address) is not an https address.")
        }
        guard OutgoingFault.isPortUsable(in: address) else {
            throw .keys("\(address) has a port that is not between 1 and 65535.")
        }
        let result = await withTaskGroup(of: Result<[UInt8], TokenFault>?.self) { group in
            group.addTask { await outcome(of: address) }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        return try (result ?? .failure(Self.tooSlow)).get()
    }

    package func read(file: String) async throws(TokenFault) -> [UInt8] {
        guard let handle = FileHandle(forReadingAtPath: file) else { throw .keys("\(file) cannot be read.") }
        defer { try? handle.close() }
        guard let data = try? handle.read(upToCount: KeyLimits.bytes + 1) else {
            throw .keys("\(file) cannot be read.")
        }
        guard data.count <= KeyLimits.bytes else { throw .keys("\(file) is larger than 256 KiB.") }
        return [UInt8](data)
    }

    private static let timeouts: [HTTPClientError] = [.connectTimeout, .readTimeout, .deadlineExceeded]
    private static let tooSlow = TokenFault.keys("The address did not answer within five seconds.")

    private func outcome(of address: String) async -> Result<[UInt8], TokenFault> {
        var request = HTTPClientRequest(url: address)
        request.headers.add(name: "accept", value: "application/json, application/jwk-set+json")
        request.headers.add(name: "user-agent", value: "zonecast")
        do {
            let response = try await (client ?? Self.sharedClient).send(request, timeout: .seconds(5))
            guard response.status.code == 200 else {
                return .failure(.keys("The address answers \(response.status.code), not 200."))
            }
            return .success(Array(buffer: try await response.body.collect(upTo: KeyLimits.bytes)))
        } catch is NIOTooManyBytesError {
            return .failure(.keys("The response is larger than 256 KiB."))
        } catch let error as HTTPClientError where Self.timeouts.contains(error) {
            return .failure(Self.tooSlow)
        } catch {
            return .failure(.keys("The address cannot be reached: \(reason(for: error))."))
        }
    }
}
