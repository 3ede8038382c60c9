import Foundation
import TestSupport
import Testing

/// `zonecast bench`, one second for each load.
@Suite(.ownThread, .timeLimit(.minutes(15)), .serialized) struct BenchTests {
    private struct Report: Decodable {
        struct Milliseconds: Decodable { var p50: Double, p99: Double, max: Double }
        var load: String, counted: String, clients: Int, done: Int, perSecond: Double, milliseconds: Milliseconds
        var refused: [String: Int]
    }

    @Test(arguments: ["writes", "changes", "notices", "public", "mixed"])
    func everyLoadIsMeasuredAndCleansUp(_ load: String) throws {
        let folder = ScratchFolder()
        let relay = try RelayProcess(folder: folder.path)
        let run = try Command.run([
            "bench", load, "--url", "http://127.0.0.1:\(relay.port)", "--seconds", "1", "--clients", "3", "--json",
        ])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.errors.isEmpty, "\(run.errors)")
        let report = try run.json(Report.self)
        #expect(report.load == load && report.clients == 3 && report.done > 0 && report.refused.isEmpty)
        #expect(report.milliseconds.p50 > 0 && report.milliseconds.p50 <= report.milliseconds.max)
        // The benchmark deletes its zones and records.
        let connection = try relay.connect()
        let place = "/database/1/iCloud.zonecast.bench/development"
        let zones = try connection.send("POST", "\(place)/private/zones/list?ckWebAuthToken=dev-bench", body: "{}")
        #expect(!String(decoding: zones.body, as: UTF8.self).contains("bench-"))
        let query = #"{"query":{"recordType":"Bench"}}"#
        let left = try connection.send("POST", "\(place)/public/records/query?ckWebAuthToken=dev-bench", body: query)
        #expect(!String(decoding: left.body, as: UTF8.self).contains("recordName"))
        #expect(relay.stop().status == 0)
    }

    @Test func withoutAURLItStartsItsOwnRelay() throws {
        let run = try Command.run(["bench", "writes", "--seconds", "1", "--clients", "2"])
        #expect(run.status == 0, "\(run.errors)")
        // The duration includes the time of the last request, so it may exceed the requested second.
        let seconds = try #require(run.output.firstMatch(of: /^writes  2 clients  ([0-9.]+) s/)).1
        #expect(Double(seconds) ?? 0 >= 1, "\(run.output)")
        #expect(run.output.contains("p99"))
    }

    @Test func wrongUsageIsReported() throws {
        #expect(try Command.run(["bench", "everything"]).status == 2)
        #expect(try Command.run(["bench", "--seconds", "0"]).status == 2)
        #expect(try Command.run(["bench", "--clients", "65"]).status == 2)
        #expect(try Command.run(["bench", "--url", "nowhere"]).status == 2)
        let unreachable = try Command.run(["bench", "--url", "http://127.0.0.1:9"])
        #expect(unreachable.status == 3 && unreachable.errors.contains("127.0.0.1:9"))
        let folder = ScratchFolder()
        let relay = try RelayProcess(folder: folder.path, [])
        let signedOut = try Command.run(["bench", "--url", "http://127.0.0.1:\(relay.port)", "--seconds", "1"])
        #expect(signedOut.status == 4 && signedOut.errors.contains("--web-token"), "\(signedOut.errors)")
    }
}
