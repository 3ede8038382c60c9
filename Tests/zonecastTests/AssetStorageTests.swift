import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// Assets in S3-compatible storage, on a server that shares no code with ours.
@Suite(.ownThread, .timeLimit(.minutes(10)), .enabled(if: S3Server.isInstalled, "\(S3Server.notInstalled)"))
struct AssetStorageTests {
    private static let server = Result { try S3Server() }

    private let folder = ScratchFolder()

    private func objects(_ address: String) throws -> S3AssetObjects {
        try #require(try S3AssetObjects.open(address, environment: Self.server.get().environment))
    }

    @Test("objects are stored, read, and deleted, and a missing one is no failure") func objects() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let objects = try objects("s3://backups/assets")
        let (source, copy) = ("\(folder.path)/source", "\(folder.path)/copy")
        let content = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        try content.write(to: URL(fileURLWithPath: source))
        try objects.put(file: source, size: Int64(content.count), as: "cluster/assets/1")
        #expect(try objects.get("cluster/assets/1", to: copy))
        #expect(FileManager.default.contents(atPath: copy) == content)
        try objects.delete("cluster/assets/1")
        try objects.delete("cluster/assets/1")
        #expect(try !objects.get("cluster/assets/1", to: copy))
        #expect(objects.probe() == nil)
    }

    @Test("a bucket that does not exist, wrong settings and a storage that is down get a sentence") func failures()
        throws
    {
        #expect(try objects("s3://nothing-here").probe()?.contains("no bucket nothing-here") == true)
        let port = try UnservedPort()
        var environment = try Self.server.get().environment
        environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:\(port.number)"
        let down = try #require(try S3AssetObjects.open("s3://backups/assets", environment: environment))
        #expect(down.probe()?.contains("cannot be reached") == true)
        for (arguments, words) in [
            (["--asset-storage", "s3://backups/assets"], "relays on a database"),
            (["--asset-storage", "http://x"], "s3://"),
        ] {
            let run = try Command.run(
                ["serve", "--data", "\(folder.path)/data", "--listen", "127.0.0.1:0"] + arguments
            )
            #expect(run.status == 2 && run.errors.contains(words), "\(run.errors)")
        }
    }

    #if Postgres
        @Test(
            "relays start with the storage, and the doctor checks it",
            .enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)")
        )
        func relays() throws {
            let store = ["ZONECAST_STORE": try PostgresServer.shared.get().makeDatabase()]
            let keys = try Self.server.get().environment
            let missing = try Command.run(
                ["serve", "--data", folder.path, "--listen", "127.0.0.1:0", "--asset-storage", "s3://backups/assets"],
                environment: store
            )
            #expect(missing.status == 2 && missing.errors.contains("AWS_ACCESS_KEY_ID"), "\(missing.errors)")
            let environment = store.merging(keys) { $1 }
                .merging(["ZONECAST_ASSET_STORAGE": "s3://backups/assets"]) { $1 }
            let relay = try RelayProcess(folder: folder.path, environment: environment)
            let doctor = try Command.run(["doctor", "--data", folder.path], environment: environment)
            #expect(doctor.output.contains("asset storage") && doctor.output.contains("stores, reads and deletes"))
            _ = relay.stop()
        }
    #endif
}
