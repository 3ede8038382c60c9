import AsyncHTTPClient
import ChildProcesses
import Crypto
import Foundation
import NIOCore
import Records
import RelayCore
import RelayGateways
import TestSupport
import Testing

/// Copies of backups in an S3 server that shares no code with ours.
@Suite(.timeLimit(.minutes(10)), .enabled(if: S3Server.isInstalled, "\(S3Server.notInstalled)"))
struct RemoteBackupsTests {
    private static let server = Result { try S3Server() }

    private let folder = ScratchFolder()

    private func use(
        prefix: String,
        partSize: Int64 = 64 * 1024 * 1024,
        _ body: (S3Client, RemoteBackups) async throws -> Void
    ) async throws {
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(60), read: .seconds(60))
        )
        let storage = S3Client(
            try #require(S3Address("s3://backups/\(prefix)")),
            try S3Settings(environment: Self.server.get().environment),
            client: client,
            now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
            pauses: [],
            partSize: partSize
        )
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(storage, RemoteBackups(storage)))
        } catch {
            outcome = .failure(error)
        }
        try await client.shutdown()
        try outcome.get()
    }

    /// Makes a backup with these assets, each named by its hash.
    private func makeBackup(_ name: String, made: Int64, assets: [String]) throws -> Backup {
        let path = "\(folder.path)/\(name)\(Backup.suffix)"
        var manifest = Backup.Manifest(made: made)
        func write(_ text: String, to file: String) throws {
            let target = URL(fileURLWithPath: "\(path)/\(file)")
            try FileManager.default.createDirectory(
                at: target.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(text.utf8).write(to: target)
        }
        let accounts = "accounts of \(name)"
        try write(accounts, to: "relay.sqlite")
        let hash = { (text: String) in Hex.encode(SHA256.hash(data: Array(text.utf8))) }
        manifest.files = [.init(path: "relay.sqlite", bytes: Int64(accounts.utf8.count), checksum: hash(accounts))]
        for asset in assets {
            let name = String(hash(asset).prefix(AssetHash.byteCount * 2))
            try write(asset, to: "containers/iCloud.org.example.one/assets/\(name.prefix(2))/\(name)")
        }
        try write(String(decoding: JSONEncoder().encode(manifest), as: UTF8.self), to: Backup.manifestName)
        return Backup(path: path, manifest: manifest)
    }

    private func files(in path: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
            files[name] = FileManager.default.contents(atPath: "\(path)/\(name)")
        }
        return files.filter { !$0.value.isEmpty }
    }

    @Test func aCopyIsFetchedAsItWas() async throws {
        let backup = try makeBackup("one", made: 1, assets: ["a picture", "a film"])
        try await use(prefix: "fetched") { _, remote in
            let upload = try await remote.upload(backup)
            #expect(upload.files == 4 && upload.known == 0)
            #expect(try await remote.all().map(\.name) == [backup.name])
            let path = try await remote.download("latest", into: "\(folder.path)/elsewhere")
            #expect(try files(in: path) == files(in: backup.path))
            #expect(try await remote.upload(backup) == .init(), "a backup that is there is not sent again")
        }
    }

    @Test func whatBackupsHaveInCommonIsSentOnce() async throws {
        let first = try makeBackup("one", made: 1, assets: ["a picture"])
        let second = try makeBackup("two", made: 2, assets: ["a picture", "a film"])
        try await use(prefix: "common") { _, remote in
            _ = try await remote.upload(first)
            let upload = try await remote.upload(second)
            #expect(upload.known == 1 && upload.files == 3)
        }
    }

    @Test func oldCopiesAndTheirContentAreRemoved() async throws {
        let first = try makeBackup("one", made: 1, assets: ["a picture", "an old picture"])
        let second = try makeBackup("two", made: 2, assets: ["a picture", "a film"])
        try await use(prefix: "removed") { storage, remote in
            _ = try await remote.upload(first)
            _ = try await remote.upload(second)
            #expect(try await remote.keep(1, lockedIn: folder.path) == 1)
            #expect(try await remote.all().map(\.name) == [second.name])
            #expect(try await storage.list("content/").count == 4)
            let path = try await remote.download(second.name, into: "\(folder.path)/elsewhere")
            #expect(try files(in: path) == files(in: second.path))
            #expect(try await remote.keep(1, lockedIn: folder.path) == 0)
        }
    }

    @Test func aDamagedCopyIsNotRestored() async throws {
        let backup = try makeBackup("one", made: 1, assets: ["a picture"])
        try await use(prefix: "damaged") { storage, remote in
            _ = try await remote.upload(backup)
            let name = Hex.encode(SHA256.hash(data: Array("a picture".utf8))).prefix(AssetHash.byteCount * 2)
            try await storage.put(Array("another".utf8), as: "content/\(name)")
            await #expect {
                _ = try await remote.download("one", into: "\(folder.path)/elsewhere")
            } throws: { "\($0)".contains("its checksum differs") }
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/elsewhere").isEmpty)
        }
    }

    @Test func anInterruptedUploadIsNotListedAndIsContinued() async throws {
        let backup = try makeBackup("one", made: 1, assets: ["a picture"])
        try await use(prefix: "interrupted") { storage, remote in
            _ = try await remote.upload(backup)
            try await storage.delete("backups/\(backup.name).json")
            #expect(try await remote.all().isEmpty)
            let upload = try await remote.upload(backup)
            #expect(upload.files == 0 && upload.known == 3)
            #expect(try await remote.all().count == 1)
        }
    }

    @Test func largeFilesAreSentInParts() async throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = "\(folder.path)/large"
        let content = Data((0..<(12 << 20)).map { UInt8(truncatingIfNeeded: $0 >> 8 &* 31) })
        try content.write(to: URL(fileURLWithPath: path))
        try await use(prefix: "large", partSize: 5 << 20) { storage, _ in
            try await storage.put(file: path, size: Int64(content.count), as: "large")
            let hash = try await storage.download("large", to: path + ".back")
            #expect(hash == Hex.encode(SHA256.hash(data: content)))
            #expect(FileManager.default.contents(atPath: path + ".back") == content)
        }
    }

    @Test func longListingsHaveSeveralPages() async throws {
        try await use(prefix: "many") { storage, _ in
            for number in 0..<1_005 { try await storage.put([1], as: "content/\(number)") }
            #expect(try await storage.list("content/").count == 1_005)
        }
    }

    @Test func missingPlacesAreNamed() async throws {
        try await use(prefix: "missing") { storage, remote in
            await #expect { _ = try await storage.bytes(of: "x", limit: 10) } throws: {
                ($0 as? S3Failure)?.code == .missing && "\($0)".contains("s3://backups/missing has no x")
            }
            await #expect { _ = try await remote.download("latest", into: folder.path) } throws: {
                "\($0)".contains("s3://backups/missing")
            }
        }
    }

    @Test func unreachableStorageIsNamed() async throws {
        let port = try UnservedPort().number
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(5), read: .seconds(5))
        )
        let settings = S3Settings(accessKey: "key", secretKey: "secret", endpoint: "http://127.0.0.1:\(port)")
        let address = try #require(S3Address("s3://backups/x"))
        let storage = S3Client(address, settings, client: client, now: { Timestamp(milliseconds: 0) }, pauses: [])
        await #expect { _ = try await storage.list("") } throws: {
            ($0 as? S3Failure)?.code == .unavailable && "\($0)".contains("s3://backups/x cannot be reached")
        }
        try await client.shutdown()
    }
}
