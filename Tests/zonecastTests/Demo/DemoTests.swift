import Testing

@testable import zonecast

@Suite struct DemoNoteTests {
    static let cases: [(base: DemoNote?, mine: DemoNote, theirs: DemoNote, merged: DemoNote)] = [
        (.init(title: "a"), .init(title: "b"), .init(title: "a", isDone: true), .init(title: "b", isDone: true)),
        (.init(title: "a"), .init(title: "b"), .init(title: "c"), .init(title: "b")),
        (.init(title: "a"), .init(title: "a"), .init(title: "c", isDone: true), .init(title: "c", isDone: true)),
        (nil, .init(title: "b"), .init(title: "c", isDone: true), .init(title: "b")),
    ]

    @Test(arguments: cases.indices) func mergesByProperty(_ row: Int) {
        let (base, mine, theirs, merged) = Self.cases[row]
        #expect(DemoNote.merge(base: base, mine: mine, theirs: theirs) == merged)
    }
}

@Suite struct DemoScreenTests {
    private func screen(_ width: Int, _ height: Int, usesColor: Bool = false) -> DemoScreen {
        let note = DemoScreen.Note(title: "Buy milk", isDone: false, isPending: true)
        let panes = ["alice/phone", "alice/laptop", "bob/tablet"].enumerated().map { index, name in
            DemoScreen.Pane(
                name: name,
                isOnline: index != 1,
                isSelected: index == 0,
                position: "1f",
                pending: index,
                notes: Array(repeating: note, count: 40),
                board: ["Picnic on Sunday"]
            )
        }
        return DemoScreen(
            panes: panes,
            dots: [true, false],
            log: (0..<50).map { "line \($0)" },
            isRelayUp: true,
            width: width,
            height: height,
            usesColor: usesColor
        )
    }

    @Test(arguments: [(80, 24), (120, 40), (40, 12), (20, 8)])
    func fillsTheTerminalExactly(_ width: Int, _ height: Int) {
        let lines = screen(width, height).lines()
        #expect(lines.count == height)
        #expect(lines.allSatisfy { $0.count <= width })
    }

    @Test func showsWhatEachClientHolds() {
        let text = screen(120, 40).lines().joined(separator: "\n")
        for part in [
            "alice/phone", "bob/tablet", "token 1f  pending 2", "offline", "☐ ✎ Buy milk", "Picnic", "line 49",
            "q quit",
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func coloursOnlyWhereAsked() {
        #expect(!screen(80, 24).lines().contains { $0.contains("\u{1B}") })
        #expect(screen(80, 24, usesColor: true).lines().contains { $0.contains("\u{1B}") })
    }
}
