import ChildProcesses
import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

/// The real program under 64 clients that use every operation: killed, stopped, restarted, and on a full disk.
///
/// See Reliability.md, "Invariants", a, b, g and i, and "Faults".
@Suite(.ownThread, .serialized, .timeLimit(.minutes(30))) struct BusyProcessTests {
    let folder = ScratchFolder()
    /// A soak runs more rounds.
    private static let rounds = ProcessInfo.processInfo.environment["ZONECAST_KILLS"].flatMap { Int($0) } ?? 1

    /// Counts completed requests and lets a test wait for a number of them.
    private final class Count: Sendable {
        private let count = Mutex(0)
        private let changed = NSCondition()

        func add() {
            count.withLock { $0 += 1 }
            changed.withLock { changed.broadcast() }
        }

        /// Waits until `more` further requests have completed.
        func wait(for more: Int, until end: Date) -> Bool {
            changed.lock()
            defer { changed.unlock() }
            let goal = count.withLock { $0 } + more
            while count.withLock({ $0 }) < goal {
                guard changed.wait(until: end) else { return false }
            }
            return true
        }
    }

    @Test func aKillUnderFullLoadLosesNoAcknowledgedRequest() throws {
        let clients = (0..<64).map { BusyClient(number: $0, seed: 5) }
        var followed = [BusyClient.Contents](repeating: [:], count: clients.count)
        var tokens = [[String: String]](repeating: [:], count: clients.count)
        var relay = try RelayProcess(folder: folder.path)
        for round in 1...Self.rounds {
            let count = Count()
            let finished = BusyClient.start(clients, on: relay) { count.add() }
            let reached = count.wait(for: 200 + round % 7 * 60, until: Date(timeIntervalSinceNow: 180))
            relay.killHard()
            #expect(finished.wait(timeout: .now() + 180) == .success, "the clients did not notice the kill")
            try #require(reached, "waited 180 s for requests to be answered")
            relay = try RelayProcess(folder: folder.path)
            for (index, client) in clients.enumerated() {
                let faults = try client.check(on: relay, following: &followed[index], &tokens[index])
                #expect(faults.isEmpty, "round \(round), client \(index): \(faults)")
            }
        }
        #expect(relay.stop().status == 0)
        for file in ["relay.sqlite", "containers/\(Path.container)/development.sqlite"] {
            let queue = try DatabaseQueue(path: "\(folder.path)/\(file)")
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok", "\(file)")
        }
    }

    @Test func aStopUnderLoadClosesEverySocketWith1001AndLosesNothing() throws {
        let clients = (0..<16).map { BusyClient(number: $0, seed: 6) }
        let relay = try RelayProcess(folder: folder.path)
        let sockets = try (0..<40).map { try NoticeSocket("device-\($0)", on: relay) }
        let count = Count()
        let finished = BusyClient.start(clients, on: relay) { count.add() }
        #expect(
            count.wait(for: 150, until: Date(timeIntervalSinceNow: 180)),
            "waited 180 s for requests to be answered"
        )
        let start = ContinuousClock.now
        relay.beginStop()
        let codes = sockets.map { $0.closeCode() }
        #expect(codes.allSatisfy { $0 == 1001 }, "sockets were closed with \(Set(codes))")
        #expect(try relay.end() == 0)
        #expect(ContinuousClock.now - start < .seconds(120))
        #expect(finished.wait(timeout: .now() + 180) == .success, "the clients did not notice the end")
        let next = try RelayProcess(folder: folder.path)
        for (index, client) in clients.enumerated() {
            var (contents, tokens) = (BusyClient.Contents(), [String: String]())
            let faults = try client.check(on: next, following: &contents, &tokens)
            #expect(faults.isEmpty, "client \(index): \(faults)")
        }
    }

    /// A relay that is told to stop at any moment of its start ends, and the next one starts.
    @Test func aRelayCanBeStoppedWhileItStarts() throws {
        for round in 0..<10 {
            let process = ChildProcess()
            process.executableURL = Command.program
            process.arguments = ["serve", "--dev", "--data", folder.path, "--listen", "127.0.0.1:0"]
            process.environment = Command.cleanEnvironment()
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            // The test varies the moment of the signal.
            usleep(UInt32(round * 12_000))
            process.terminate()
            let start = ContinuousClock.now
            process.waitUntilExit()
            #expect(ContinuousClock.now - start < .seconds(120), "round \(round)")
            // Before the relay handles signals, SIGTERM ends it as it ends any program.
            let isEnded = process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGTERM
            #expect(isEnded || process.terminationStatus == 0, "round \(round): \(process.terminationStatus)")
        }
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        #expect(relay.stop().status == 0)
    }

    /// A file system of a few megabytes, if the test may mount one.
    private final class SmallDisk {
        let path: String

        init?(megabytes: Int) {
            path = NSTemporaryDirectory() + "zonecast-small-\(UUID().uuidString)"
            try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            guard Self.run("mount", "-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", path) else {
                try? FileManager.default.removeItem(atPath: path)
                return nil
            }
        }

        deinit {
            _ = Self.run("umount", "-l", path)
            try? FileManager.default.removeItem(atPath: path)
        }

        private static func run(_ words: String...) -> Bool {
            let process = ChildProcess()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = words
            process.standardError = FileHandle.nullDevice
            guard (try? process.run()) != nil else { return false }
            process.waitUntilExit()
            return process.terminationStatus == 0
        }
    }

    /// Mounting requires root; without it the test is skipped.
    private static let canMount = geteuid() == 0 && SmallDisk(megabytes: 1) != nil

    @Test(.enabled(if: canMount)) func aFullDiskRefusesWritesUntilThereIsRoom() throws {
        let disk = try #require(SmallDisk(megabytes: 12))
        let data = disk.path + "/data"
        let ballast = disk.path + "/ballast"
        try Data(count: 4 << 20).write(to: URL(fileURLWithPath: ballast))
        let relay = try RelayProcess(folder: data)
        try Path.makeZones(["Notes"], on: relay)
        let connection = try relay.connect()
        func save(_ number: Int) throws -> HTTPConnection.Answer {
            let text = String(repeating: "x", count: 60_000)
            let record =
                #"{"recordName":"r\#(number)","recordType":"Long","fields":{"text":{"value":"\#(text)"}}}"#
            let body =
                #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
            return try connection.send("POST", Path.to("records/modify"), body: body)
        }
        func isSaved(_ answer: HTTPConnection.Answer) -> Bool {
            answer.status == 200 && !String(decoding: answer.body, as: UTF8.self).contains("serverErrorCode")
        }
        // A checkpoint between two refusals can make room for one more write: five in a row mean that the disk is full.
        var (kept, refusals) = (0, 0)
        while kept < 400, refusals < 5 {
            let answer = try save(kept)
            if isSaved(answer) {
                (kept, refusals) = (kept + 1, 0)
                continue
            }
            refusals += 1
            let reply = String(decoding: answer.body, as: UTF8.self)
            #expect(reply.contains("TRY_AGAIN_LATER") && reply.contains("disk is full"), "\(reply.prefix(300))")
        }
        #expect(kept > 10 && kept < 400, "\(kept) writes of 60 kB fit on 8 MB")
        func names() throws -> Int {
            let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"},"desiredKeys":[],"resultsLimit":200}]}"#
            let answer = try connection.send("POST", Path.to("changes/zone"), body: body)
            return String(decoding: answer.body, as: UTF8.self).components(separatedBy: #""recordName":"r"#).count - 1
        }
        #expect(try names() == min(kept, 200), "reads still work")
        try FileManager.default.removeItem(atPath: ballast)
        #expect(isSaved(try save(kept)), "writes succeed once there is room")
        relay.killHard()
        let next = try RelayProcess(folder: data)
        let again = try next.connect()
        let body = #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"r0"},{"recordName":"r\#(kept)"}]}"#
        let found = String(decoding: try again.send("POST", Path.to("records/lookup"), body: body).body, as: UTF8.self)
        #expect(!found.contains("NOT_FOUND") && found.contains(#""r\#(kept)""#))
        #expect(next.stop().status == 0)
    }
}
