import Foundation

/// The contents of the screen as values; drawing is a pure function from this to lines.
struct DemoScreen: Equatable, Sendable {
    struct Pane: Equatable, Sendable {
        var user: String
        var device: String
        var isOnline: Bool
        var isLive: Bool
        var contents: DemoContents
        /// The selected note, on which keys act.
        var selectedNote: String?
        /// `nil`: a poll is in progress, or polling is paused.
        var secondsToPoll: Int?

        var name: String { "\(user) / \(device)" }
    }

    var panes: [Pane]
    var log: [String]
    /// The selected pane, on which keys act.
    var selected: Int
    var isRelayRunning: Bool
    var isOurRelay: Bool
    /// Whether the demo runs several relays.
    var isCluster = false
    var hint: String?
    /// The line that the user is typing.
    var input: DemoInput?
    /// Whether the list of keys covers the panes.
    var isHelpShown = false

    /// Returns the whole screen: exactly `height` lines of `width` columns.
    func lines(width: Int, height: Int, hasColour: Bool) -> [String] {
        let paint = DemoPaint(hasColour: hasColour)
        guard width >= 40, height >= 12 else {
            let words = paint.wrapped("The window is too small: 40 columns and 12 lines are needed.", width)
            let lines = words.prefix(max(0, height)).map { paint.fit($0, width) }
            return lines + Array(repeating: "", count: max(0, height - lines.count))
        }
        if isHelpShown { return help(width, height, paint) }
        let (status, keys) = (status(width, paint), keyLines(width, height, paint))
        let body = height - status.count - keys.count
        let tall = max(6, height < 20 ? body * 2 / 3 : body * 3 / 5)
        let top = panes.count > 3 ? crowd(width, tall, paint) : columns(width, tall, paint)
        let logLines = log.suffix(body - top.count).flatMap { paint.log($0, width) }.suffix(body - top.count)
        let blank = Array(repeating: "", count: max(0, body - top.count - logLines.count))
        return top + logLines + blank + status + keys
    }

    /// The most important keys, wrapped between them; `?` shows all.
    private func keyLines(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        var keys = ["? all keys", "q quit"]
        if input != nil {
            keys = ["Enter save", "Esc cancel"]
        } else if height >= 18 {
            let first = "1-\(min(9, panes.count)) client"
            keys =
                [first, "↑↓ note", "a add", "Enter check off", "d delete", "o offline", "s share", "t tour"]
                + (isOurRelay ? [isCluster ? "k kill node" : "k kill relay"] : []) + keys
        }
        var lines = [""]
        for key in keys {
            let last = lines[lines.count - 1]
            let longer = last.isEmpty ? key : last + "  " + key
            if longer.count <= width { lines[lines.count - 1] = longer } else { lines.append(key) }
        }
        return lines.map { paint.dim(paint.fit($0, width)) }
    }

    /// All keys, in two columns.
    private func help(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        var keys = [
            ("1-\(min(9, panes.count))", "choose a client"), ("Tab ← →", "next client"), ("↑ ↓", "choose a note"),
            ("a", "add a note"), ("e", "edit its title"), ("Enter", "check it off"), ("d", "delete it"),
            ("o", "offline, online"), ("r", "restart client"), ("p", "post to the board"), ("s", "share the note"),
            ("w", "permission"), ("u", "uninvite"), ("A", "add to shared"), ("l", "leave or stop"), ("t", "tour"),
        ]
        if isOurRelay { keys.append(("k", isCluster ? "kill a node" : "kill relay, start")) }
        keys += [("q", "quit")]
        let rows = (keys.count + 1) / 2
        let each = width / 2
        func cell(_ index: Int) -> String {
            guard keys.indices.contains(index) else { return "" }
            return paint.fit(" " + keys[index].0.filled(to: 7) + " " + keys[index].1, each)
        }
        var lines = [paint.bold(paint.fit(" Keys. Press any key to go back.", width))]
        if height > rows + 2 { lines.append("") }
        lines += (0..<rows).map { paint.fit(cell($0) + cell($0 + rows), width) }
        lines = Array(lines.prefix(height))
        return lines + Array(repeating: "", count: height - lines.count)
    }

    /// The relay's state, the client that keys act on and the hint, or the line being typed.
    private func status(_ width: Int, _ paint: DemoPaint) -> [String] {
        if let input {
            let lines = paint.wrapped("\(input.prompt): \(input.text)▏", width, indent: 2).suffix(3)
            return lines.map { paint.bold(paint.fit($0, width)) }
        }
        let down = isOurRelay ? "relay DOWN: press k to restart it" : "relay DOWN: it does not answer"
        let relay = isRelayRunning ? "relay up" : down
        let whole = "\(relay) · keys act on \(panes[selected].name)" + (hint.map { " · \($0)" } ?? "")
        // The hint is shown only once, whereas the selected pane is visible in the panes too.
        let text = hint.map { whole.columns > width ? "\(relay) · \($0)" : whole } ?? whole
        let lines = paint.wrapped(text, width, indent: 2).prefix(3).map { paint.fit($0, width) }
        return isRelayRunning ? lines : lines.map(paint.red)
    }

    // MARK: Up to three panes

    private func columns(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let each = width / panes.count
        let drawn = panes.enumerated().map { number, pane in
            DemoColumn(pane: pane, isSelected: number == selected, width: each, height: height).lines(paint)
        }
        return (0..<height).map { row in drawn.map { $0[row] }.joined() }
    }

    // MARK: Many clients

    /// One dot per client, and the selected client's pane.
    private func crowd(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let right = min(40, width / 2)
        let pane = DemoColumn(pane: panes[selected], isSelected: true, width: right, height: height).lines(paint)
        let left = dots(width - right, height, paint)
        return (0..<height).map { row in left[row] + pane[row] }
    }

    /// The order in which clients are listed when there are many: by owner.
    static func order(of users: [String]) -> [Int] {
        users.indices.sorted { (users[$0], $0) < (users[$1], $1) }
    }

    /// The clients of each owner, by number; scrolls to the selected client.
    ///
    /// Green: up to date; yellow: pending or behind; red: offline.
    private func dots(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let newest = Dictionary(grouping: panes, by: \.user)
            .compactMapValues { $0.max { Int($0.contents.token) ?? 0 < Int($1.contents.token) ?? 0 }?.contents.all }
        let cell = 6
        let perLine = max(1, width / cell)
        let legend = "● up to date  ◐ behind or pending  ○ offline"
        let head = (["\(panes.count) clients"] + paint.wrapped(legend, width)).map { paint.fit($0, width) }
        // Each row with its owner's label.
        var (rows, chosenRow): ([(line: String, label: String)], Int) = ([], 0)
        let groups = Dictionary(grouping: Self.order(of: panes.map(\.user))) { panes[$0].user }
        for (user, numbers) in groups.sorted(by: { $0.key < $1.key }) {
            let label = paint.bold(paint.fit("\(user): \(numbers.count.of("client"))", width))
            rows.append((label, label))
            for start in stride(from: 0, to: numbers.count, by: perLine) {
                let line = numbers[start..<min(start + perLine, numbers.count)]
                if line.contains(selected) { chosenRow = rows.count }
                let cells = line.map { number in
                    let pane = panes[number]
                    let isBehind =
                        !pane.isLive || pane.contents.all != newest[pane.user] || pane.contents.pending > 0
                    let dot = !pane.isOnline ? paint.red("○") : isBehind ? paint.yellow("◐") : paint.green("●")
                    return (number == selected ? ">" : " ") + dot + "\(number + 1)".filled(to: cell - 2)
                }
                rows.append((cells.joined() + String(repeating: " ", count: width - cell * cells.count), label))
            }
        }
        let room = max(0, height - head.count)
        var drawn = rows.map(\.line)
        if rows.count > room {
            // One line tells how many are hidden.
            let shown = max(1, room - 1)
            let start = min(max(0, chosenRow - shown / 2), rows.count - shown)
            let hidden = rows.count - shown
            drawn = Array(drawn[start..<start + shown])
            // The first line always names the owner.
            if shown > 1 { drawn[0] = rows[start].label }
            drawn += [paint.dim(paint.fit("… \(hidden.of("line")) more: Tab, ←, →", width))]
        }
        let lines = (head + drawn).prefix(height)
        return lines + Array(repeating: paint.fit("", width), count: height - lines.count)
    }
}

/// One client's pane: its notes, shared lists, the board, and their sync state.
struct DemoColumn {
    var pane: DemoScreen.Pane
    var isSelected: Bool
    var width: Int
    var height: Int

    private var inner: Int { width - 2 }
    /// At 80 columns a pane is 24 columns wide inside: words are shortened, numbers are not.
    private var isNarrow: Bool { inner < 34 }
    /// At 60 columns it is 18 columns wide.
    private var isTiny: Bool { inner < 22 }

    /// Returns exactly `height` lines of `width` columns.
    func lines(_ paint: DemoPaint) -> [String] {
        let rows = content(height - 2).map { "│" + paint.fit(" " + $0, inner) + "│" }
        let foot = "└" + String(repeating: "─", count: inner) + "┘"
        let head = "┌" + paint.fit(title, inner) + "┐"
        return [isSelected ? paint.bold(head) : head] + rows + [isSelected ? paint.bold(foot) : foot]
    }

    private var title: String {
        let offline = isTiny ? "○" : isNarrow ? "○ off" : "○ offline"
        let state = !pane.isOnline ? offline : pane.isLive ? "●" : isNarrow ? "◌" : "◌ connecting"
        let name = isNarrow ? " \(pane.user)/\(pane.device) " : " \(pane.name) "
        let fill = String(repeating: "─", count: max(0, inner - name.count - state.count - 2))
        return "\(name)\(fill) \(state) "
    }

    private func content(_ room: Int) -> [String] {
        let contents = pane.contents
        let posts = contents.posts.suffix(room >= 12 ? 2 : 1).flatMap { wrapped("  \($0)", indent: 2) }
        let pending =
            contents.pending > 0 ? isNarrow ? "  ✎ \(contents.pending)" : "  ✎ pending \(contents.pending)" : ""
        let head = wrapped(
            (isTiny ? "token " : isNarrow ? "Notes  token " : "PRIVATE Notes  token ") + contents.token + pending
        )
        let poll = pane.isOnline ? pane.secondsToPoll.map { "next \($0) s" } ?? "polling" : "paused"
        let foot = Array((["\(isTiny ? "" : "PUBLIC ")Board  \(poll)"] + posts).prefix(max(2, room / 2)))
        let middle = max(0, room - head.count - foot.count)
        let wanted = contents.lists.reduce(0) { $0 + heading($1).count + blocks($1.notes).joined().count }
        // Lists get the space that the user's own notes leave, at least half of it.
        let own = blocks(contents.notes).joined().count
        let shared = lists(contents.lists, min(wanted, max(middle / 2, middle - own)))
        let ownLines = notes(contents.notes, middle - shared.count)
        let blank = Array(repeating: "", count: max(0, middle - ownLines.count - shared.count))
        return Array((head + ownLines + blank + shared + foot).prefix(room))
    }

    /// Wraps a text to the pane, whose lines begin with a space.
    private func wrapped(_ text: String, indent: Int = 0) -> [String] {
        DemoPaint(hasColour: false).wrapped(text, inner - 1, indent: indent)
    }

    private func heading(_ list: DemoList) -> [String] {
        let arrow = list.isMine ? "→" : "←"
        let right = list.people.isEmpty ? "" : " \(list.right.rawValue)"
        return wrapped("⇄\(right) \(list.title) \(arrow) \(list.people.joined(separator: ", "))", indent: 2)
    }

    private func lists(_ lists: [DemoList], _ room: Int) -> [String] {
        guard room > 0, !lists.isEmpty else { return [] }
        let each = room / lists.count
        let drawn = lists.flatMap { list -> [String] in
            let head = heading(list)
            return head + notes(list.notes, min(blocks(list.notes).joined().count, each - head.count))
        }
        return Array(drawn.prefix(room))
    }

    /// The lines of each note.
    private func blocks(_ notes: [DemoNote]) -> [[String]] {
        notes.map { note in
            let mark = isSelected && note.name == pane.selectedNote ? "›" : " "
            return wrapped("\(mark) \(note.done ? "☑" : "☐") \(note.title)", indent: 4)
        }
    }

    /// Returns as many notes as fit, including the newest or the selected one.
    private func notes(_ notes: [DemoNote], _ room: Int) -> [String] {
        guard room > 0 else { return [] }
        let blocks = blocks(notes)
        guard blocks.joined().count > room else { return Array(blocks.joined()) }
        let chosen = notes.firstIndex { $0.name == pane.selectedNote } ?? notes.count - 1
        var (shown, left) = (chosen..<chosen + 1, room - 1 - blocks[chosen].count)
        // Takes neighbours of the chosen note, in turn, while one fits.
        while true {
            let before = shown
            if let block = blocks[..<shown.lowerBound].last, block.count <= left {
                (shown, left) = (shown.lowerBound - 1..<shown.upperBound, left - block.count)
            }
            if let block = blocks[shown.upperBound...].first, block.count <= left {
                (shown, left) = (shown.lowerBound..<shown.upperBound + 1, left - block.count)
            }
            if shown == before { break }
        }
        let hidden = notes.count - shown.count
        return ((hidden > 0 ? ["  … \(hidden) more"] : []) + blocks[shown].joined()).prefix(room).map { $0 }
    }
}

/// Colours text and fits it to a width.
struct DemoPaint: Sendable {
    var hasColour: Bool

    func bold(_ text: String) -> String { code("1", text) }
    func dim(_ text: String) -> String { code("2", text) }
    func red(_ text: String) -> String { code("31", text) }
    func green(_ text: String) -> String { code("32", text) }
    func yellow(_ text: String) -> String { code("33", text) }

    /// Formats a log line, wrapped instead of cut.
    func log(_ line: String, _ width: Int) -> [String] {
        let isCheck = line.contains(" check ")
        // An address and its text fit side by side only from the start of the line.
        let indent = cutsAddress(line, width) ? 2 : min(33, width / 3)
        let cut = wrapped(line, width, indent: indent).map { fit($0, width) }
        if line.contains("✘") || line.contains("kill -9") || line.contains(" refuse") { return cut.map(red) }
        if isCheck { return cut.map(green) }
        return line.contains("conflict") || line.contains("offline") ? cut.map(yellow) : cut
    }

    /// Whether cutting the line would cut an address, making it useless.
    private func cutsAddress(_ line: String, _ width: Int) -> Bool {
        guard let start = line.firstRange(of: "://") else { return false }
        let end = line[start.upperBound...].firstIndex(of: " ") ?? line.endIndex
        return line[..<end].columns > width
    }

    /// Wraps a line between words, and inside words that are longer than a line.
    func wrapped(_ line: String, _ width: Int, indent: Int = 0) -> [String] {
        let indent = String(repeating: " ", count: max(0, min(indent, width - 8)))
        var lines: [String] = []
        // Runs of spaces between columns count as empty words.
        var words = line.split(separator: " ", omittingEmptySubsequences: false)[...]
        var last = String(words.popFirst() ?? "")
        func breakLong() {
            while last.columns > width, width > indent.count {
                let part = last.prefix(columns: width)
                guard !part.isEmpty else { return }
                lines.append(String(part))
                last = indent + last.dropFirst(part.count)
            }
        }
        for word in words {
            if last.columns + 1 + word.columns > width, !last.allSatisfy({ $0 == " " }) {
                lines.append(last)
                last = indent + word
            } else {
                last += " " + word
            }
            breakLong()
        }
        breakLong()
        return lines + [last]
    }

    /// Returns text of exactly this many columns: cut with an ellipsis, or padded with spaces.
    func fit(_ text: String, _ width: Int) -> String {
        let cut = text.columns > width ? text.prefix(columns: max(0, width - 1)) + "…" : text
        return cut.filled(to: width)
    }

    private func code(_ code: String, _ text: String) -> String {
        hasColour ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}
