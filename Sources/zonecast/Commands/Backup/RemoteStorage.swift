import AsyncHTTPClient
import Foundation
import NIOCore
import RelayCore
import RelayGateways
import RelaySystem

/// The storage away from this machine, as `--remote` and a schedule name it.
enum RemoteStorage {
    /// Returns the address that a text names.
    static func address(_ text: String) throws(BackupFailure) -> S3Address {
        guard let address = S3Address(text) else {
            throw .remote(
                "'\(text)' is not the address of S3 storage. Write s3://BUCKET/PREFIX, with letters, digits, '-', '_' and '.'."
            )
        }
        return address
    }

    /// Opens the storage, with the keys in the environment, while `body` runs.
    static func use<Value>(_ text: String, _ body: (RemoteBackups) async throws -> Value) async throws -> Value {
        let address = try address(text)
        let settings: S3Settings
        do throws(S3Failure) {
            settings = try S3Settings(environment: ProcessInfo.processInfo.environment)
        } catch {
            throw BackupFailure.remote(error.description)
        }
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(10), read: .seconds(60))
        )
        let storage = S3Client(address, settings, client: client) { TimeSource.system.now() }
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await body(RemoteBackups(storage)))
        } catch {
            outcome = .failure(error)
        }
        try? await client.shutdown()
        return try outcome.get()
    }

    /// Copies a backup, and removes old copies if `keep` says how many remain.
    static func copy(
        _ backup: Backup,
        to text: String,
        keep: Int? = nil,
        step: (String) -> Void = { _ in }
    ) async throws -> RemoteBackups.Upload {
        try await use(text) { remote in
            let upload = try await remote.upload(backup, step: step)
            remote.note(backup, at: TimeSource.system.now())
            if let keep {
                _ = try await remote.keep(keep, lockedIn: (backup.path as NSString).deletingLastPathComponent)
            }
            return upload
        }
    }
}
