import Crypto
import Foundation
import Testing
import ZoneKit

@testable import zonecast

/// The log lines that the demo derives from requests and responses.
@Suite struct DemoTranscriptTests {
    @Test func noticesAndFetchesFollowTheCommitInTheLog() {
        let journal = DemoJournal(.none)
        journal.note("alice/phone", "save", "milk")
        let write = journal.writeStarted()
        journal.received(.init("relay", "→ notice", "alice/laptop"), by: "alice/laptop")
        journal.received(.init("alice/laptop", "fetch", "1 changed"), by: "alice/laptop")
        journal.note("alice/laptop", "shows", "milk")
        journal.note("bob/tablet", "save", "bread")
        journal.writeEnded(write, of: "alice/phone", [.init("relay", "commit", "milk")])
        journal.received(.init("relay", "→ notice", "bob/tablet"), by: "bob/tablet")
        let expected = ["save", "save", "commit", "→ notice", "fetch", "shows", "→ notice"]
        #expect(journal.last(10).map(\.what) == expected)
    }

    /// Pressing `s` shares one note, the tour shares two.
    @Test func theNoteCountUsesTheSingular() {
        #expect(DemoClient.words("Camping", "bob", .readOnly, 1) == "\"Camping\" with bob, read only: 1 note")
        #expect(DemoClient.words("Camping", "bob", .readWrite, 2).hasSuffix(": 2 notes"))
    }

    @Test func delayedLinesAppearAfterAWriteWithoutAnswer() {
        let journal = DemoJournal(.none)
        let writes = [journal.writeStarted(), journal.writeStarted()]
        journal.received(.init("relay", "→ notice", "bob/tablet"), by: "bob/tablet")
        // The first write was never answered.
        journal.writeEnded(writes[0], of: "alice/phone", [])
        #expect(journal.last(10).isEmpty)
        journal.writeEnded(writes[1], of: "bob/tablet", [.init("relay", "commit", "bread")])
        #expect(journal.last(10).map(\.what) == ["→ notice", "commit"])
    }

    private func steps(_ path: String, _ answer: String, asked: String = "{}") -> [DemoTranscript.Step] {
        let request = RelayRequest(method: .post, path: "/database/1/c/development/" + path, body: Array(asked.utf8))
        let response = RelayResponse(status: 200, body: Array(answer.utf8))
        return DemoTranscript.steps(request, response, client: "alice/phone")
    }

    @Test func everyItemOfAWriteHasALine() {
        let answer = """
            {"records":[
                {"recordName":"n1","recordType":"Note","recordChangeTag":"8","fields":{}},
                {"recordName":"n2","deleted":true},
                {"recordName":"n3","serverErrorCode":"CONFLICT","reason":"newer"},
                {"recordName":"n4","serverErrorCode":"ACCESS_DENIED","reason":"no"},
                {"recordName":"n5","serverErrorCode":"ATOMIC_ERROR","reason":"another"}]}
            """
        let found = steps("private/records/modify", answer)
        #expect(found.map(\.what) == ["commit", "commit", "conflict", "refuse"])
        #expect(found.first?.detail == "Note/n1  tag 8")
        #expect(found.last?.detail == "Note/n4 by alice/phone: ACCESS_DENIED")
    }

    @Test func aFetchShowsItsTokens() {
        let zone = "\"zoneID\":{\"zoneName\":\"com.apple.coredata.cloudkit.share.0A-BCDE\"}"
        let page = """
            {"zones":[{\(zone),"syncToken":"x","moreComing":false,"records":[
                {"recordName":"n1","recordType":"Note","fields":{}},{"recordName":"n2","deleted":true}]}]}
            """
        let found = steps("private/changes/zone", page)
        #expect(found.map(\.detail) == ["share-bcde since – → 1 changed, 1 deleted, token –"])
        // Without changes there is no line.
        #expect(steps("private/changes/zone", "{\"zones\":[{\(zone),\"syncToken\":\"x\",\"records\":[]}]}").isEmpty)
    }

    @Test func aMoveHasOneLine() {
        let answer = """
            {"records":[{"recordName":"n1","recordChangeTag":"8"},{"recordName":"n2","recordChangeTag":"9"}],
            "source":{"zoneID":{"zoneName":"Notes"}},"destination":{"zoneID":{"zoneName":"Other"}}}
            """
        #expect(steps("private/records/move", answer).map(\.detail) == ["n1, n2 moved to Other, all at once"])
    }

    @Test(arguments: ["", "nonsense", "[]", "{\"records\":7}", "{\"zones\":[]}"])
    func anInvalidResponseHasNoLine(_ answer: String) {
        #expect(steps("private/records/modify", answer).isEmpty)
        #expect(steps("private/changes/zone", answer).isEmpty)
        #expect(steps("private/zones/modify", answer).isEmpty)
        #expect(steps("private/records/move", answer).isEmpty)
    }
}

@Suite struct DemoLedgerTests {
    @Test func refusedWritesAreTakenBack() {
        let ledger = DemoLedger()
        ledger.added("a", of: "alice")
        ledger.added("b", of: "alice")
        ledger.added("c", of: "alice")
        ledger.deleted("a")
        #expect(ledger.notes(of: "alice") == ["b", "c"])
        // A refused deletion keeps the note, a refused creation removes it, and a refused edit changes neither.
        ledger.refused("a", isDeletion: true, isNew: false)
        ledger.refused("b", isDeletion: false, isNew: true)
        ledger.refused("c", isDeletion: false, isNew: false)
        #expect(ledger.notes(of: "alice") == ["a", "c"])
        #expect(ledger.refusals == 3)
        #expect(ledger.notes(of: "bob").isEmpty)
    }
}

@Suite struct ChaosPlanTests {
    /// Runs a plan in which all clients show all notes, as over a perfect network.
    private func steps(_ count: Int, seed: UInt64, hasRelay: Bool = true) -> [ChaosPlan.Step] {
        var plan = ChaosPlan(clients: 3, hasRelay: hasRelay, seed: seed)
        var notes: [String] = []
        return (0..<count).map { number in
            let step = plan.next { _ in notes }
            if case .add(let client) = step {
                notes.append("n\(number)")
                plan.added("n\(number)", by: client)
            }
            return step
        }
    }

    @Test func aPlanIsDeterminedByItsSeed() {
        #expect(steps(500, seed: 7) == steps(500, seed: 7))
        #expect(steps(500, seed: 7) != steps(500, seed: 8))
    }

    @Test(arguments: 0..<20) func cutsAndOutagesHaveAMaximumLength(seed: UInt64) {
        var (away, down): ([Int: Int], Int?) = ([:], nil)
        for (number, step) in steps(2_000, seed: seed).enumerated() {
            switch step {
            case .cut(let client):
                #expect(away[client] == nil, "cut twice")
                away[client] = number
            case .heal(let client):
                let since = away.removeValue(forKey: client)
                // Clients whose cuts end at the same time take one step each.
                #expect(since.map { number - $0 <= ChaosPlan.longestCut + 3 } == true)
            case .killRelay:
                #expect(down == nil, "killed twice")
                down = number
            case .startRelay:
                #expect(down.map { number - $0 <= ChaosPlan.longestOutage * 4 } == true)
                down = nil
            default: break
            }
        }
        #expect(away.values.allSatisfy { 2_000 - $0 <= ChaosPlan.longestCut + 3 })
    }

    @Test(arguments: 0..<20) func notesOfOthersAreNotDeletedAndDeletedNotesAreNotEdited(seed: UInt64) {
        var (writers, deleted): ([String: Set<Int>], Set<String>) = ([:], [])
        for (number, step) in steps(2_000, seed: seed).enumerated() {
            switch step {
            case .add(let client): writers["n\(number)"] = [client]
            case .edit(let client, let note):
                #expect(!deleted.contains(note))
                writers[note]?.insert(client)
            case .delete(let client, let note):
                #expect(writers[note] == [client])
                #expect(deleted.insert(note).inserted)
            default: break
            }
        }
        #expect(!deleted.isEmpty)
    }

    @Test func aRemoteRelayIsNeverKilled() {
        #expect(!steps(3_000, seed: 1, hasRelay: false).contains(.killRelay))
    }
}

@Suite struct WaitTests {
    @Test func waitingEndsAtTheLimitEvenIfTheWorkContinues() async {
        let failure = await #expect(throws: CommandFailure.self) {
            try await Wait.upTo(.zero, "the sun to rise") {
                // This work ignores cancellation.
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            }
        }
        #expect(failure?.description == "Waited 0 s for the sun to rise.")
    }

    @Test func resultsAndErrorsAreReturned() async throws {
        #expect(try await Wait.upTo(.seconds(120), "a result") { 7 } == 7)
        await #expect(throws: CommandFailure.self) {
            try await Wait.upTo(.seconds(120), "a failure") { throw CommandFailure(.failed, "no") }
        }
    }
}

@Suite struct DemoRecorderTests {
    private let pictures = [
        DemoRecorder.Picture(seconds: 0, lines: ["┌ a < b ┐", "\u{1B}[31mred & bold\u{1B}[0m after"]),
        DemoRecorder.Picture(seconds: 1.5, lines: ["┌ a < b ┐", "gone"]),
    ]

    @Test func aCastHasAHeaderAndALineForEachPicture() throws {
        let lines = try DemoRecorder.cast(pictures).split(separator: "\n")
        #expect(lines.count == 3)
        #expect(lines[0].contains("\"version\":2"))
        #expect(lines[2].hasPrefix("[1.500, \"o\", \""))
        #expect(lines[2].contains("gone"))
    }

    @Test func aDrawingContainsEachLineOnceAndEscapesXML() throws {
        let svg = DemoDrawing(pictures: pictures).svg
        #expect(svg.components(separatedBy: "<text ").count == 4)
        #expect(svg.contains("class=\"c31\">red &amp; bold</tspan>"))
        #expect(svg.contains("a &lt; b"))
        // The second picture is shown from 1.5 s of 5.5 s on.
        #expect(svg.contains("27.273%{transform:translateX(-856.0px)}"))
    }
}

/// QR codes: the standard's example of error correction, and codes that a reader has read.
///
/// `ClientChecks` compares the browser's codes with the same digests.
@Suite struct QRCodeTests {
    private func digest(_ text: String) throws -> String {
        let rows = try #require(QRCode(text)).modules.map { row in row.map { $0 ? "1" : "0" }.joined() }
        return SHA256.hash(data: Data(rows.joined(separator: "\n").utf8)).prefix(6)
            .map { String(format: "%02x", $0) }.joined()
    }

    @Test func theStandardsExampleOfErrorCorrection() {
        let data: [UInt8] = [16, 32, 12, 86, 97, 128, 236, 17, 236, 17, 236, 17, 236, 17, 236, 17]
        #expect(
            QRCode.ReedSolomon.correction(of: data, count: 10) == [165, 36, 212, 193, 237, 54, 199, 135, 44, 85]
        )
    }

    @Test func theCodesAreThoseOfTheBrowser() throws {
        #expect(try digest("http://192.168.1.20:8080/demo/?user=alice&device=phone") == "4b5fd2481be9")
        #expect(try digest(String(repeating: "x", count: 200)) == "64e9db0f7dcf")
        #expect(QRCode(String(repeating: "x", count: 300)) == nil)
    }

    @Test("a terminal shows the code if it is wide enough, in 24 rows with the link and the PIN")
    func terminal() throws {
        func lines(_ width: Int?, hasColour: Bool = false) -> [String] {
            DemoJoin.lines(
                "http://192.168.100.200:8080",
                pin: "123456",
                hostSecret: "s",
                width: width,
                hasColour: hasColour
            )
        }
        #expect(lines(nil).count == 5)
        #expect(lines(36).count == 5)
        let shown = lines(37)
        #expect(shown.count == 5 + 19)
        let code = shown.dropFirst(4).dropLast()
        #expect(code.allSatisfy { $0.count == 37 })
        #expect(code.first == String(repeating: "█", count: 37))
        let coloured = lines(80, hasColour: true).dropFirst(4).dropLast()
        #expect(coloured.first == "\u{1B}[30;107m" + String(repeating: " ", count: 37) + "\u{1B}[0m")
        // Both forms show the same modules.
        let opposite: [Character: Character] = ["█": " ", " ": "█", "▀": "▄", "▄": "▀"]
        let inverted = code.map { line in String(line.compactMap { opposite[$0] }) }
        #expect(coloured.map { String($0.dropFirst(9).dropLast(4)) } == inverted)
    }
}
