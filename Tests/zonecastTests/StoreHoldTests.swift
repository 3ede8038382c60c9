import Foundation
import Synchronization
import TestSupport
import Testing

/// Commands that replace one container of a running relay: the others go on without a failed request.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct StoreHoldTests {
    enum Act: String, CaseIterable {
        case restore, reset, delete
    }

    private static let (target, other) = ("iCloud.org.example.target", "iCloud.org.example.other")
    let folder = ScratchFolder()

    /// Writes to one container until it is stopped.
    private final class Load: Sendable {
        struct Outcome {
            var accepted = 0
            var refusals: [String: Int] = [:]
            /// The longest time between a request and its answer.
            var longest = Duration.zero
        }

        private let state = Mutex(Outcome())
        private let isStopped = Mutex(false)
        private let ended = DispatchGroup()

        init(on container: String, _ relay: RelayProcess) {
            let port = relay.port
            let path = "/database/1/\(container)/development/public/records/modify?ckWebAuthToken=dev-alice"
            ended.enter()
            Thread.detachNewThread { [self] in
                defer { ended.leave() }
                guard let connection = try? HTTPConnection(port: port) else { return }
                var number = 0
                while !isStopped.withLock({ $0 }) {
                    number += 1
                    let record = #"{"recordName":"r\#(number % 50)","recordType":"Note","fields":{}}"#
                    let body = #"{"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
                    let start = ContinuousClock.now
                    let answer = try? connection.send("POST", path, body: body)
                    note(answer, took: ContinuousClock.now - start)
                    if answer == nil { return }
                }
            }
        }

        private func note(_ answer: HTTPConnection.Answer?, took: Duration) {
            struct Refusal: Decodable { var serverErrorCode: String }
            state.withLock { state in
                state.longest = max(state.longest, took)
                guard let answer, answer.status == 200 else {
                    var what = (try? answer?.json(Refusal.self).serverErrorCode) ?? "\(answer?.status ?? 0)"
                    if answer?.headers["retry-after"] != nil { what += ", retry later" }
                    state.refusals[what, default: 0] += 1
                    return
                }
                state.accepted += 1
            }
        }

        var accepted: Int { state.withLock { $0.accepted } }

        func stop() -> Outcome {
            isStopped.withLock { $0 = true }
            ended.wait()
            return state.withLock { $0 }
        }

        func waitForWrites(_ count: Int) {
            let goal = accepted + count
            let end = ContinuousClock.now + .seconds(120)
            while accepted < goal, ContinuousClock.now < end { usleep(2_000) }
        }
    }

    private func zonecast(_ arguments: [String]) throws -> Command {
        try Command.run(arguments + ["--data", folder.path])
    }

    private func perform(_ act: Act) throws -> Command {
        switch act {
        case .restore: try zonecast(["backup", "restore", "latest", "--container", Self.target])
        case .reset: try zonecast(["schema", "reset", "--container", Self.target, "--yes"])
        case .delete: try zonecast(["container", "delete", Self.target, "--yes", "--no-backup"])
        }
    }

    private func count(_ container: String, _ relay: RelayProcess) throws -> Int {
        struct Records: Decodable { var records: [Int?]? }
        let path = "/database/1/\(container)/development/public/records/query?ckWebAuthToken=dev-alice"
        let answer = try relay.connect().send(
            "POST",
            path,
            body: #"{"query":{"recordType":"Note"},"resultsLimit":200}"#
        )
        let text = String(decoding: answer.body, as: UTF8.self)
        return text.components(separatedBy: "\"recordName\":\"r").count - 1
    }

    @Test(arguments: Act.allCases) func anotherContainerSeesNoFailure(_ act: Act) throws {
        let relay = try RelayProcess(folder: folder.path)
        let loads = [Self.target, Self.other].map { Load(on: $0, relay) }
        loads.forEach { $0.waitForWrites(60) }
        #expect(try zonecast(["backup", "create"]).status == 0)
        let process = try String(contentsOfFile: folder.path + "/relay.lock", encoding: .utf8)
        let before = loads[1].accepted
        let outcome = try perform(act)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(loads[1].accepted > before, "the other container is served during the command")
        loads[1].waitForWrites(20)
        let (target, other) = (loads[0].stop(), loads[1].stop())
        #expect(other.refusals.isEmpty, "\(other.refusals)")
        #expect(other.longest < .seconds(5), "\(other.longest)")
        #expect(target.refusals.keys.allSatisfy { $0 == "TRY_AGAIN_LATER, retry later" }, "\(target.refusals)")
        #expect(try String(contentsOfFile: folder.path + "/relay.lock", encoding: .utf8) == process, "no restart")
        #expect(try count(Self.other, relay) == 50)
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path + "/store.request")).isEmpty)
        #expect(relay.stop().status == 0)
    }

    @Test func oneContainerHasTheContentOfTheBackup() throws {
        let relay = try RelayProcess(folder: folder.path)
        for container in [Self.target, Self.other] { try save("r1", in: container, relay) }
        #expect(try zonecast(["backup", "create"]).status == 0)
        for container in [Self.target, Self.other] { try save("r2", in: container, relay) }
        let user = ["user", "create", "late@example.org", "--password-stdin", "--data", folder.path]
        #expect(try Command.run(user, input: "correct horse\n").status == 0)
        let restored = try zonecast(["backup", "restore", "latest", "--container", Self.target])
        #expect(restored.status == 0 && restored.output.contains("nothing: the relay continues"), "\(restored.errors)")
        #expect(try count(Self.target, relay) == 1 && count(Self.other, relay) == 2)
        #expect(try zonecast(["user", "list"]).output.contains("late@example.org"), "accounts stay")
        let folders = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let before = try #require(folders.first { $0.hasPrefix("before-restore-") })
        let kept = "\(folder.path)/\(before)/containers/\(Self.target)/development.sqlite"
        #expect(FileManager.default.fileExists(atPath: kept))
        // The next start finds nothing to repair.
        #expect(relay.stop().status == 0)
        let again = try RelayProcess(folder: folder.path)
        #expect(try count(Self.target, again) == 1 && count(Self.other, again) == 2)
        #expect(again.stop().status == 0)
    }

    @Test func aContainerThatWasCreatedAgainIsNotRestored() throws {
        #expect(try zonecast(["container", "create", Self.target]).status == 0)
        let relay = try RelayProcess(folder: folder.path)
        try save("r1", in: Self.target, relay)
        #expect(try zonecast(["backup", "create"]).status == 0)
        #expect(try zonecast(["container", "delete", Self.target, "--yes", "--no-backup"]).status == 0)
        let gone = try zonecast(["backup", "restore", "latest", "--container", Self.target])
        #expect(gone.status == 1 && gone.errors.contains("leave --container out"), "\(gone.errors)")
        try save("r1", in: Self.target, relay)
        let other = try zonecast(["backup", "restore", "latest", "--container", Self.target])
        #expect(other.status == 1 && other.errors.contains("created again"), "\(other.errors)")
        #expect(relay.stop().status == 0)
    }

    /// The command is killed while it has the store: the relay notices the lock's end and serves the store again.
    @Test func aCommandThatDiesLeavesTheOldContent() throws {
        let relay = try RelayProcess(folder: folder.path)
        try save("r1", in: Self.target, relay)
        let path = folder.path + "/store.request"
        let request = open(path, O_RDWR | O_APPEND | O_CLOEXEC)
        #expect(flock(request, LOCK_EX | LOCK_NB) == 0)
        let line = Array("id \(Self.target)/development\n".utf8)
        #expect(write(request, line, line.count) == line.count)
        let isClosed = { (try? String(contentsOfFile: path, encoding: .utf8).hasSuffix("closed\n")) == true }
        let end = ContinuousClock.now + .seconds(60)
        while !isClosed(), ContinuousClock.now < end { usleep(2_000) }
        #expect(isClosed())
        let refused = try modify("r2", in: Self.target, relay)
        #expect(refused.status == 503 && refused.headers["retry-after"] == "2", "\(refused.status)")
        let busy = try zonecast(["schema", "reset", "--container", Self.target, "--yes"])
        #expect(busy.status == 5 && busy.errors.contains("in use by a command"), "\(busy.errors)")
        close(request)
        while (try? Data(contentsOf: URL(fileURLWithPath: path)).isEmpty) != true, ContinuousClock.now < end {
            usleep(2_000)
        }
        try save("r2", in: Self.target, relay)
        #expect(try count(Self.target, relay) == 2)
        #expect(relay.stop().status == 0)
    }

    private func modify(_ name: String, in container: String, _ relay: RelayProcess) throws -> HTTPConnection.Answer {
        let path = "/database/1/\(container)/development/public/records/modify?ckWebAuthToken=dev-alice"
        let record = #"{"recordName":"\#(name)","recordType":"Note","fields":{}}"#
        let body = #"{"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
        return try relay.connect().send("POST", path, body: body)
    }

    private func save(_ name: String, in container: String, _ relay: RelayProcess) throws {
        #expect(try modify(name, in: container, relay).status == 200)
    }
}
