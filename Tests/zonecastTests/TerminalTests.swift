import ChildProcesses
import Foundation
import RelaySystem
import TestSupport
import Testing

@testable import zonecast

/// Output to terminals, and terminal settings that a command changes.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct TerminalTests {
    private let folder = ScratchFolder()

    @Test(arguments: ["Cafe\u{301} au lait END", "👩‍👩‍👧🍎 END", "日本 END", "plain"])
    func fillingNeverTruncates(_ text: String) {
        #expect(text.filled(to: 2) == text)
        #expect(text.filled(to: text.columns + 3) == text + "   ")
    }

    /// Column counts match terminals, so that text beside and below stays aligned.
    @Test(arguments: [
        ("plain", 5), ("Cafe\u{301}", 4), ("日本", 4), ("한국", 4), ("🥛", 2), ("👩‍👩‍👧", 2), ("🇫🇷", 2), ("❤️", 2), ("☑ ○ … │", 7),
        ("ｆｕｌｌ", 8), ("", 0),
    ]) func theColumnCountOfATextMatchesTerminals(_ text: String, _ columns: Int) {
        #expect(text.columns == columns)
        #expect(text.prefix(columns: columns) == text)
        if columns > 0 { #expect(text.prefix(columns: columns - 1).columns < columns) }
        let paint = DemoPaint(hasColour: false)
        for width in 0...12 { #expect(paint.fit(text, width).columns == max(width, columns > width ? 1 : 0)) }
    }

    @Test func aTableShowsTheWholeName() throws {
        let name = "Cafe\u{301} 👩‍👩‍👧🍎 END"
        let data = ["--data", folder.path]
        let person = ["user", "create", "ada@example.org", "--given-name", name, "--password-stdin"]
        #expect(try Command.run(person + data, input: "correct horse\n").status == 0)
        for quiet in [[], ["--quiet"]] {
            let list = try Command.run(["user", "list"] + quiet + data).output
            #expect(list.contains("🍎 END") && !list.contains("\u{FFFD}"), "\(list)")
        }
    }

    @Test func interruptingAPasswordPromptRestoresTheEcho() throws {
        let terminal = try PseudoTerminal()
        let login = terminal.process([
            "login", "--url", "http://127.0.0.1:9", "--container", "iCloud.org.example.notes",
        ])
        try login.run()
        let deadline = ContinuousClock.now + .seconds(120)
        while terminal.echoes, ContinuousClock.now < deadline { usleep(20_000) }
        #expect(!terminal.echoes, "waited 120 s for the password prompt")
        login.signal(SIGINT)
        login.waitUntilExit()
        #expect(login.terminationStatus == 128 + SIGINT && terminal.echoes)
    }

    @Test func endOfInputCancelsAPrompt() throws {
        let terminal = try PseudoTerminal()
        let data = folder.path + "/data"
        let begun = terminal.process(["init", "--data", data, "--files", folder.path + "/files"])
        terminal.type("\u{4}")
        try begun.run()
        begun.waitUntilExit()
        #expect(begun.terminationStatus == 1 && !FileManager.default.fileExists(atPath: folder.path))
    }

    @Test func pathsAreQuotedForTheShell() {
        #expect("/var/lib/zonecast-data_1.0".shellWord == "/var/lib/zonecast-data_1.0")
        #expect("sp ace".shellWord == "'sp ace'" && "it's".shellWord == #"'it'\''s'"# && "".shellWord == "''")
    }
}
