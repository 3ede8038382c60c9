import Foundation
import Testing
import ZoneKit

@testable import zonecast

@Suite struct DemoScreenTests {
    private func screen(panes count: Int = 3) -> DemoScreen {
        let note = DemoNote(name: "n", title: "Buy milk")
        let names = [("alice", "phone"), ("alice", "laptop"), ("bob", "tablet")]
        let panes = (0..<count).map { index in
            DemoScreen.Pane(
                user: names[index % 3].0,
                device: names[index % 3].1,
                isOnline: index != 1,
                isLive: index != 2,
                token: "\(14 - index % 2)",
                pending: index % 3,
                notes: Array(repeating: note, count: 40),
                board: ["Picnic on Sunday"],
                secondsToPoll: 4
            )
        }
        return DemoScreen(
            panes: panes,
            log: (0..<50).map { "line \($0)" },
            selected: 0,
            isRelayRunning: true,
            isOurRelay: true,
            hint: nil
        )
    }

    @Test(arguments: [(80, 24), (120, 40), (40, 12), (20, 8)], [3, 50])
    func fillsTheTerminalExactly(_ size: (width: Int, height: Int), _ panes: Int) {
        let lines = screen(panes: panes).lines(width: size.width, height: size.height, hasColour: false)
        #expect(lines.count == size.height)
        #expect(lines.allSatisfy { $0.count <= size.width })
    }

    @Test func showsWhatEachClientHolds() {
        let text = screen().lines(width: 120, height: 40, hasColour: false).joined(separator: "\n")
        for part in [
            "alice / phone", "bob / tablet", "token 13  ✎ pending 1", "○ offline", "◌ connecting", "☐ Buy milk",
            "PUBLIC Board  next 4 s", "PUBLIC Board  paused", "Picnic", "line 49", "q quit", "relay up",
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func theFiguresAreThereAt80Columns() {
        let text = screen().lines(width: 80, height: 24, hasColour: false).joined(separator: "\n")
        for part in ["alice/laptop", "○ off", "token 13  ✎ 1", "k kill", "q quit"] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func saysThatTheRelayIsDownAndWhatToPress() {
        var down = screen()
        down.isRelayRunning = false
        let text = down.lines(width: 80, height: 24, hasColour: false).joined(separator: "\n")
        #expect(text.contains("relay DOWN: k starts it again"))
    }

    @Test func aRelayElsewhereIsNotOffered() {
        var elsewhere = screen()
        elsewhere.isOurRelay = false
        #expect(!elsewhere.lines(width: 120, height: 24, hasColour: false).contains { $0.contains("kill/restart") })
    }

    @Test func coloursOnlyWhereAsked() {
        let escape = "\u{1B}"
        #expect(!screen(panes: 9).lines(width: 80, height: 24, hasColour: false).contains { $0.contains(escape) })
        #expect(screen(panes: 9).lines(width: 80, height: 24, hasColour: true).contains { $0.contains(escape) })
    }
}

/// The demo as its user runs it, without a terminal.
@Suite(.serialized, .timeLimit(.minutes(3))) struct DemoRunTests {
    @Test func theTourHoldsAndItsLastLineSaysSo() throws {
        let demo = try Command.run(["demo", "--board-seconds", "1"])
        let last = demo.output.split(separator: "\n").last ?? ""
        #expect(demo.status == 0, "\(demo.output)\n\(demo.complaint)")
        #expect(last.contains("check    3 mirrors equal the relay · 0 lost · 0 duplicated"))
        #expect(last.hasSuffix("6 of 6 scenes held"))
        #expect(!demo.output.contains("\u{1B}"))
        for step in ["save", "commit", "→ notice", "fetch", "ms after save", "kill -9", "conflict"] {
            #expect(demo.output.contains(step), "\(step)")
        }
    }

    @Test func noRelayThereIsToldAtOnce() throws {
        let demo = try Command.run(["demo", "--url", "http://127.0.0.1:1"])
        #expect(demo.status == 3)
        #expect(demo.complaint.contains("No relay answers at http://127.0.0.1:1."))
    }
}

@Suite struct DemoStoreTests {
    private let folder = ScratchFolder()

    private func store() throws -> DemoStore {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        return try DemoStore(path: folder.path + "/client.sqlite")
    }

    @Test func whatIsPendingSurvivesAndOnlyTheVersionSentIsConfirmed() throws {
        let first = try store()
        try first.save(DemoNote(name: "a", title: "one"))
        first.close()
        #expect(throws: CommandFailure.self) { try first.notes() }
        let second = try store()
        #expect(try second.changes().map(\.name) == ["a"])
        let sent = try #require(try second.recordToSend(.init(recordName: "a", zoneID: .init(zoneName: "Notes"))))
        try second.save(DemoNote(name: "a", title: "two"))
        try second.confirm(sent.record, version: sent.version)
        #expect(try second.pendingCount() == 1)
        let newer = try #require(try second.recordToSend(.init(recordName: "a", zoneID: .init(zoneName: "Notes"))))
        try second.confirm(newer.record, version: newer.version)
        #expect(try second.pendingCount() == 0)
    }

    @Test func aDeletionLeavesAnEditThatIsNotSentYet() throws {
        let store = try store()
        try store.save(DemoNote(name: "a", title: "mine"))
        try store.applyDeletion("a")
        #expect(try store.notes().map(\.title) == ["mine"])
    }
}
