import Foundation
import Testing

@testable import zonecast

@Suite struct DemoScreenTests {
    private func pane(_ index: Int) -> DemoScreen.Pane {
        let names = [("alice", "phone"), ("alice", "laptop"), ("bob", "tablet")]
        let notes = (0..<40).map { DemoNote(name: "n\($0)", title: "Buy milk \($0)") }
        let shared = [
            DemoNote(name: "s0", title: "Pitch the tent", done: true), DemoNote(name: "s1", title: "Pack the guitar"),
        ]
        let isAlice = index % 3 != 2
        let list = DemoList(
            title: "Camping",
            isMine: isAlice,
            people: [isAlice ? "bob?" : "alice"],
            right: .readOnly,
            notes: shared
        )
        return DemoScreen.Pane(
            user: names[index % 3].0,
            device: names[index % 3].1,
            isOnline: index != 1,
            isLive: index != 2,
            contents: DemoContents(
                notes: notes,
                lists: [list],
                posts: ["Picnic on Sunday"],
                pending: index % 3,
                token: "\(14 - index % 2)"
            ),
            selectedNote: "s1",
            secondsToPoll: 4
        )
    }

    private func screen(panes count: Int = 3) -> DemoScreen {
        DemoScreen(
            panes: (0..<count).map(pane),
            log: (0..<50).map { "line \($0)" },
            selected: 0,
            isRelayRunning: true,
            isOurRelay: true,
            hint: nil
        )
    }

    private func text(_ screen: DemoScreen, _ width: Int, _ height: Int) -> String {
        screen.lines(width: width, height: height, hasColour: false).joined(separator: "\n")
    }

    @Test(arguments: [(80, 24), (60, 18), (120, 40), (200, 60), (40, 12), (20, 8)], [1, 3, 50, 100])
    func theScreenFillsTheTerminalExactly(_ size: (width: Int, height: Int), _ panes: Int) {
        let lines = screen(panes: panes).lines(width: size.width, height: size.height, hasColour: false)
        #expect(lines.count == size.height)
        #expect(lines.allSatisfy { $0.count <= size.width })
    }

    /// Clients that are not connected yet have no notes, but must not count as up to date.
    @Test func connectingClientsAreNotUpToDate() {
        var opening = screen(panes: 50)
        for number in opening.panes.indices {
            opening.panes[number].contents = DemoContents()
            (opening.panes[number].isOnline, opening.panes[number].isLive) = (true, number < 7)
        }
        opening.hint = DemoPresenter.progress(opening.panes)
        let text = text(opening, 120, 40)
        #expect(text.contains("7 of 50 clients connected"))
        // The legend contains each symbol once more.
        #expect(text.count { $0 == "●" } == 8 + 1 && text.count { $0 == "◐" } == 43 + 1)
    }

    @Test(arguments: [(40, 10), (20, 8)]) func aTooSmallWindowShowsTheWholeMessage(_ size: (width: Int, height: Int)) {
        let lines = screen().lines(width: size.width, height: size.height, hasColour: false)
        let output = lines.map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }.joined(separator: " ")
        #expect(output == "The window is too small: 40 columns and 12 lines are needed.")
    }

    @Test func aHintIsShownInFullAt80Columns() {
        var screen = screen()
        screen.selected = 1
        screen.hint = "the list is not bob's to share: its owner is alice, who can"
        #expect(text(screen, 80, 24).contains("alice, who can"))
    }

    @Test func keysAreDecodedFromUTF8AndNamed() {
        for key in ["a", "é", "日", "😀", "\n"] {
            var rest = Array(key.utf8)[...]
            let first = rest.removeFirst()
            #expect(DemoTerminal.character(beginning: first) { rest.popFirst() } == key.first)
            #expect(rest.isEmpty)
        }
        for broken: UInt8 in [0x80, 0xC3, 0xFF] { #expect(DemoTerminal.character(beginning: broken) { nil } == nil) }
        let names = ["\n", "\r", " ", "\u{7F}", "\u{1}", "\u{1A}", "\u{9B}", "é", "x"].map(DemoTerminal.name)
        #expect(names == ["Return", "Return", "Space", "Backspace", "Ctrl-A", "Ctrl-Z", "a control key", "é", "x"])
    }

    @Test func thePanesShowTheContentOfEachClient() {
        let shown = text(screen(), 120, 40)
        for part in [
            "alice / phone", "bob / tablet", "token 13  ✎ pending 1", "○ offline", "◌ connecting", "☐ Buy milk 39",
            "⇄ r/o Camping → bob?", "⇄ r/o Camping ← alice", "☑ Pitch the tent", "› ☐ Pack the guitar",
            "PUBLIC Board  next 4 s", "PUBLIC Board  paused", "Picnic", "line 49", "q quit", "s share", "relay up",
            "? all keys",
        ] {
            #expect(shown.contains(part), "\(part)")
        }
    }

    @Test func theFiguresFit80Columns() {
        let shown = text(screen(), 80, 24)
        for part in [
            "alice/laptop", "○ off", "token 13  ✎ 1", "⇄ r/o Camping ← alice", "k kill relay", "a add", "q quit",
        ] {
            #expect(shown.contains(part), "\(part)")
        }
    }

    @Test func theSelectedNoteIsAlwaysVisible() {
        for chosen in ["n0", "n20", "n39"] {
            var screen = screen()
            screen.panes[0].selectedNote = chosen
            #expect(text(screen, 80, 24).contains("› ☐ Buy milk \(chosen.dropFirst())"), "\(chosen)")
        }
    }

    /// The order of words stays, so only line ends and borders are removed.
    private func words(_ screen: DemoScreen, _ width: Int, _ height: Int, column: Range<Int>? = nil) -> String {
        screen.lines(width: width, height: height, hasColour: false)
            .map { line in column.map { String(Array(line.filled(to: width))[$0]) } ?? line }
            .joined(separator: " ").split { $0 == " " || $0 == "│" }.joined(separator: " ")
    }

    @Test(arguments: [(80, 24), (60, 18)]) func nothingIsCutOff(_ size: (width: Int, height: Int)) {
        var screen = screen()
        let title = "Ask about the bicycle cellar"
        for number in screen.panes.indices {
            screen.panes[number].contents.notes = [DemoNote(name: "n0", title: title)]
            screen.panes[number].contents.lists = []
            screen.panes[number].contents.posts = ["Picnic"]
            screen.panes[number].selectedNote = "n0"
        }
        let log = "Note/n001 \"Ask the landlord about the cellar\"   21 ms after save"
        screen.log = ["  0.012s  alice/laptop  shows    " + log]
        screen.hint = "press a and type a note: it appears on the other devices"
        let text = text(screen, size.width, size.height)
        // The ellipsis of a cut line; a list says in words how many notes it hides.
        #expect(!text.contains("…"), "\(text)")
        for part in ["alice/phone", "alice/laptop", "bob/tablet", "next 4 s", "q quit"] { #expect(text.contains(part)) }
        let column = size.width / 3
        for number in 0..<3 {
            let range = number * column..<(number + 1) * column
            #expect(words(screen, size.width, size.height, column: range).contains(title))
        }
        #expect(words(screen, size.width, size.height).contains("cellar\" 21 ms after save"))
        #expect(words(screen, size.width, size.height).contains("it appears on the other devices"))
        screen.isHelpShown = true
        let help = self.text(screen, size.width, size.height)
        for part in ["w       permission", "k       kill relay", "Enter", "Press any key"] {
            #expect(help.contains(part))
        }
        #expect(!help.contains("…"))
    }

    @Test func aTypedLineIsShownInFull() {
        var screen = screen()
        screen.input = DemoInput(prompt: "New note of alice/phone", text: "Ask the landlord about the bicycle cellar")
        #expect(words(screen, 60, 18).contains("New note of alice/phone: Ask the landlord about the bicycle cellar▏"))
        #expect(text(screen, 60, 18).contains("Enter save  Esc cancel"))
    }

    @Test(arguments: [(80, 24), (60, 18)]) func manyClientsAreLabelledAndScroll(_ size: (width: Int, height: Int)) {
        var screen = screen(panes: 50)
        for chosen in [0, 49] {
            screen.selected = chosen
            let text = text(screen, size.width, size.height)
            #expect(text.contains("\(screen.panes[chosen].user): "), "\(text)")
            #expect(["●", "◐", "○"].contains { text.contains(">\($0)\(chosen + 1)") }, "\(text)")
        }
        #expect(text(screen, size.width, size.height).contains("more: Tab"))
        // Left and right follow the order on the screen.
        #expect(DemoScreen.order(of: ["alice", "alice", "bob", "alice", "bob"]) == [0, 1, 3, 2, 4])
    }

    @Test func aLineIsTyped() {
        var input = DemoInput(prompt: "New note")
        for key in "Buy milx" { #expect(input.take(key) == .typing) }
        for key: Character in ["\u{7F}", "k", DemoTerminal.left, "\u{1}", "é"] { #expect(input.take(key) == .typing) }
        #expect(input.text == "Buy milké")
        #expect(input.take("\r") == .submitted("Buy milké"))
        #expect(input.take("\u{15}") == .typing && input.text.isEmpty)
        #expect(input.take("\n") == .cancelled)
        #expect(input.take(DemoTerminal.escape) == .cancelled)
        for _ in 0..<300 { _ = input.take("x") }
        #expect(input.text.count == DemoInput.limit)
    }

    @Test func theSelectedClientHasAPaneAmongMany() {
        let shown = text(screen(panes: 50), 100, 30)
        #expect(shown.contains("50 clients"))
        #expect(shown.contains("⇄ r/o Camping → bob?"))
    }

    @Test func aLongCheckIsShownInFull() {
        var screen = screen()
        let check = DemoLine(
            seconds: 9,
            who: "tour",
            what: "check",
            detail: Array(repeating: "fact", count: 40).joined(separator: " · ") + " · held"
        )
        screen.log.append(check.text)
        let shown = text(screen, 80, 24)
        #expect(shown.contains("9.000s  tour          check    fact"))
        #expect(shown.contains("· held"))
    }

    @Test func aLongAddressIsShownInFull() {
        var screen = screen()
        let link = "http://127.0.0.1:43211/console/#setup=K7Q2-9M4D-K7Q2"
        screen.log.append(
            DemoLine(seconds: 0, who: "demo", what: "console", detail: "\(link)  (one use, 15 minutes)").text
        )
        let shown = screen.lines(width: 80, height: 24, hasColour: false)
        // The line is complete, and wrapped as little as possible.
        #expect(shown.contains { $0.hasPrefix("  \(link)  (one use, 15 minutes)") }, "\(shown)")
    }

    @Test func aStoppedRelayIsShownWithTheKeyToRestartIt() {
        var down = screen()
        down.isRelayRunning = false
        #expect(text(down, 80, 24).contains("relay DOWN: press k to restart it"))
    }

    @Test func killingARemoteRelayIsNotOffered() {
        var remote = screen()
        remote.isOurRelay = false
        #expect(!text(remote, 120, 24).contains("kill relay"))
    }

    @Test func coloursAreUsedOnlyOnRequest() {
        let escape = "\u{1B}"
        #expect(!screen(panes: 9).lines(width: 80, height: 24, hasColour: false).contains { $0.contains(escape) })
        #expect(screen(panes: 9).lines(width: 80, height: 24, hasColour: true).contains { $0.contains(escape) })
    }
}
