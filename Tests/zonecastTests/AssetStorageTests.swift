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

        /// The addresses of uploads and downloads as this relay gives them.
        private struct AssetClient {
            let relay: RelayProcess

            private static func target(_ url: String) throws -> String {
                let parts = try #require(URLComponents(string: url))
                return parts.percentEncodedPath + (parts.percentEncodedQuery.map { "?\($0)" } ?? "")
            }

            /// Returns where to upload the file of a record.
            func uploadTarget(_ name: String) throws -> String {
                struct Tokens: Decodable {
                    struct Token: Decodable { var url: String }
                    var tokens: [Token]
                }
                let body = #"{"tokens":[{"recordType":"Note","recordName":"\#(name)","fieldName":"file"}]}"#
                let answer = try relay.connect().send("POST", Path.to("assets/upload"), body: body)
                return try Self.target(try #require(try answer.json(Tokens.self).tokens.first).url)
            }

            /// Saves a record with what an upload has returned.
            func save(_ name: String, _ uploaded: HTTPConnection.Answer) throws {
                let text = String(decoding: uploaded.body, as: UTF8.self)
                let file = try #require(text.firstMatch(of: /"singleFile":(\{.*\})\}/), "\(uploaded.status) \(text)").1
                let record =
                    #"{"recordName":"\#(name)","recordType":"Note","fields":{"file":{"value":\#(file)}}}"#
                let body = #"{"operations":[{"operationType":"create","record":\#(record)}]}"#
                let saved = try relay.connect().send("POST", Path.to("records/modify"), body: body)
                let answer = String(decoding: saved.body, as: UTF8.self)
                #expect(saved.status == 200 && answer.contains("recordChangeTag"), "\(answer)")
            }

            /// Returns the content of a record's file.
            func download(_ name: String) throws -> Data {
                let body = #"{"records":[{"recordName":"\#(name)"}]}"#
                let answer = try relay.connect().send("POST", Path.to("records/lookup"), body: body)
                let text = String(decoding: answer.body, as: UTF8.self).replacing(#"\/"#, with: "/")
                let url = try #require(text.firstMatch(of: /"downloadURL":"([^"]*)"/), "\(text)").1
                let file = try relay.connect().send("GET", Self.target(String(url)))
                #expect(file.status == 200)
                return file.body
            }

            func delete(_ name: String) throws {
                let body =
                    #"{"operations":[{"operationType":"forceDelete","record":{"recordName":"\#(name)","recordType":"Note"}}]}"#
                #expect(try relay.connect().send("POST", Path.to("records/modify"), body: body).status == 200)
            }
        }

        @Test(
            "an asset that one node stores is served by the other, an interrupted upload goes on there, and garbage goes",
            .enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)")
        )
        func twoNodes() throws {
            let server = try PostgresServer.shared.get()
            let url = try server.makeDatabase()
            let database = url.split(separator: "?")[0].split(separator: "/").last.map(String.init) ?? ""
            let environment = ["ZONECAST_STORE": url, "ZONECAST_ASSET_STORAGE": "s3://backups/nodes"]
                .merging(try Self.server.get().environment) { $1 }
            let nodes = try ["a", "b"].map {
                try RelayProcess(
                    folder: "\(folder.path)/\($0)",
                    ["--dev", "--node", $0],
                    environment: environment
                )
            }
            let (first, second) = (AssetClient(relay: nodes[0]), AssetClient(relay: nodes[1]))
            let content = String(repeating: "a picture. ", count: 200_000)
            let uploaded = try nodes[0].connect().send("POST", try first.uploadTarget("one"), body: content)
            try first.save("one", uploaded)
            #expect(try second.download("one") == Data(content.utf8))
            #expect(try server.execute("SELECT count(*) FROM asset WHERE is_object", in: database) == "1")

            // The connection breaks before the last bytes.
            let other = String(repeating: "another one ", count: 200_000)
            let target = try first.uploadTarget("two")
            var broken: HTTPConnection? = try nodes[0].connect()
            try broken?.begin("POST", target, body: other, withholding: 1_000_000)
            broken = nil
            let arrived = other.utf8.count - 1_000_000
            let connection = try nodes[1].connect()
            while true {
                let progress = try connection.send("GET", target)
                #expect(progress.status == 204)
                if progress.headers["upload-offset"] == "\(arrived)" { break }
                usleep(20_000)
            }
            let rest = String(decoding: other.utf8.dropFirst(arrived), as: UTF8.self)
            let resumed = try connection.send(
                "POST",
                target,
                headers: ["Upload-Offset": "\(arrived)"],
                body: rest
            )
            try second.save("two", resumed)
            #expect(try first.download("two") == Data(other.utf8))

            // The node that has the beginning of an upload dies: the client begins again elsewhere.
            let third = try first.uploadTarget("three")
            let lost = try nodes[0].connect()
            try lost.begin("POST", third, body: other + "!", withholding: 1_000_000)
            nodes[0].killHard()
            #expect(try connection.send("GET", third).headers["upload-offset"] == "0")
            try second.save("three", try connection.send("POST", third, body: other + "!"))
            #expect(try second.download("three") == Data((other + "!").utf8))

            // Nothing goes that a record uses, however old it is.
            let objects = try objects("s3://backups/nodes")
            func clean(after name: String) throws {
                try second.delete(name)
                try server.execute("UPDATE asset SET touched_at = now() - interval '9 days'", in: database)
                let run = try Command.run(
                    ["asset", "clean", "--container", Path.container, "--data", "\(folder.path)/a"],
                    environment: environment
                )
                #expect(run.status == 0 && run.output.contains("1 unused asset"), "\(run.output) \(run.errors)")
            }
            try clean(after: "one")
            let garbage = try server.execute(
                "SELECT l.cluster || '/assets/' || g.content FROM asset_garbage g, zonecast_layout l",
                in: database
            )
            let copy = "\(folder.path)/copy"
            #expect(try objects.get(garbage, to: copy), "downloads that have begun may need it")
            try server.execute("UPDATE asset_garbage SET at = now() - interval '9 days'", in: database)
            try clean(after: "three")
            #expect(try !objects.get(garbage, to: copy))
            #expect(try server.execute("SELECT count(*) FROM asset", in: database) == "1")
            #expect(try second.download("two") == Data(other.utf8))
            _ = nodes[1].stop()
        }
    #endif
}
