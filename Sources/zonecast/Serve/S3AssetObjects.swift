import AsyncHTTPClient
import Dispatch
import Foundation
import NIOCore
import Records
import RelayCore
import RelayGateways
import RelaySystem
import StoreKit
import Synchronization

/// S3-compatible storage for the contents of assets.
final class S3AssetObjects: AssetObjects {
    private let client: HTTPClient
    private let storage: S3Client

    /// - Throws: `S3Failure` if the keys are not in the environment.
    init(_ address: S3Address, environment: [String: String]) throws(S3Failure) {
        let settings = try S3Settings(environment: environment)
        client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(5), read: .seconds(60))
        )
        // A client waits for each request, and repeats it itself.
        storage = S3Client(address, settings, client: client, now: { TimeSource.system.now() }, pauses: [.seconds(1)])
    }

    deinit { client.shutdown { _ in } }

    /// Opens what `--asset-storage` names; `nil` if it is not set.
    static func open(
        _ text: String?,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws -> S3AssetObjects? {
        guard let text else { return nil }
        guard let address = S3Address(text) else {
            throw CommandFailure(.usage, "asset-storage is no S3 storage. Write s3://BUCKET/PREFIX.")
        }
        do throws(S3Failure) { return try S3AssetObjects(address, environment: environment) } catch {
            throw CommandFailure(.usage, error.description)
        }
    }

    var place: String { "\(storage.address)" }

    func put(file path: String, size: Int64, as name: String) throws(RelayError) {
        try wait { [storage] () async throws(S3Failure) in try await storage.put(file: path, size: size, as: name) }
    }

    func get(_ name: String, to path: String) throws(RelayError) -> Bool {
        let found = try attempt { [storage] () async throws(S3Failure) in _ = try await storage.download(name, to: path)
        }
        guard let failure = found else { return true }
        if failure.code == .missing { return false }
        throw Self.error(failure)
    }

    func delete(_ name: String) throws(RelayError) {
        try wait { [storage] () async throws(S3Failure) in try await storage.delete(name) }
    }

    func probe() -> String? {
        let name = "zonecast-doctor-\(UUID().uuidString)"
        let failure = try? attempt { [storage] () async throws(S3Failure) in
            try await storage.put(Array("ok".utf8), as: name)
            _ = try await storage.bytes(of: name, limit: 100)
            try await storage.delete(name)
        }
        return (failure ?? nil)?.description
    }

    private func wait(_ body: @escaping @Sendable () async throws(S3Failure) -> Void) throws(RelayError) {
        if let failure = try attempt(body) { throw Self.error(failure) }
    }

    /// Blocks the caller's thread until the request has ended; returns its failure.
    private func attempt(
        _ body: @escaping @Sendable () async throws(S3Failure) -> Void
    ) throws(RelayError) -> S3Failure? {
        let (end, outcome) = (DispatchSemaphore(value: 0), Outcome())
        Task {
            do throws(S3Failure) { try await body() } catch { outcome.failure.withLock { $0 = error } }
            end.signal()
        }
        end.wait()
        return outcome.failure.withLock { $0 }
    }

    private final class Outcome: Sendable {
        let failure = Mutex<S3Failure?>(nil)
    }

    /// The error for a client, which does not reveal the cause.
    private static func error(_ failure: S3Failure) -> RelayError {
        Terminal.sayError("The storage for assets failed: \(failure)")
        return RelayError(
            .tryAgainLater,
            failure.code == .local
                ? "The relay's disk failed. Try again later."
                : "The relay cannot use its storage for assets now. Try again later.",
            retryAfter: .seconds(failure.code == .unavailable ? 10 : 60)
        )
    }
}
