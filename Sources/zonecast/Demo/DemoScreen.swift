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
    var hint: String?

    /// Returns the whole screen: exactly `height` lines of `width` columns.
    func lines(width: Int, height: Int, hasColour: Bool) -> [String] {
        let paint = DemoPaint(hasColour: hasColour)
        guard width >= 40, height >= 12 else {
            let words = paint.wrapped("The window is too small: 40 columns and 12 lines are needed.", width)
            let lines = words.prefix(max(0, height)).map { paint.fit($0, width) }
            return lines + Array(repeating: "", count: max(0, height - lines.count))
        }
        let keys = keyLines(width)
        let body = height - 1 - keys.count
        let tall = max(6, body * 3 / 5)
        let top = panes.count > 3 ? crowd(width, tall, paint) : columns(width, tall, paint)
        let logLines = log.suffix(body - top.count).flatMap { paint.log($0, width) }.suffix(body - top.count)
        let blank = Array(repeating: "", count: max(0, body - top.count - logLines.count))
        return top + logLines + blank + [status(width, paint)] + keys.map { paint.dim(paint.fit($0, width)) }
    }

    /// The key help, wrapped between words; two lines at 80 columns.
    private func keyLines(_ width: Int) -> [String] {
        var keys = [
            "1-\(min(9, panes.count)) client", "↑↓ note", "a add", "e edit", "d delete", "o offline",
            "r restart client", "s share", "w permission", "u uninvite", "A add to shared", "l leave/stop", "p post",
            "t tour",
        ]
        if isOurRelay { keys.append("k kill relay") }
        keys.append("q quit")
        var lines = [""]
        for key in keys {
            let last = lines[lines.count - 1]
            let longer = last.isEmpty ? key : last + "  " + key
            if longer.count <= width { lines[lines.count - 1] = longer } else { lines.append(key) }
        }
        return Array(lines.prefix(3))
    }

    private func status(_ width: Int, _ paint: DemoPaint) -> String {
        let down = isOurRelay ? "relay DOWN: press k to restart it" : "relay DOWN: it does not answer"
        let relay = isRelayRunning ? "relay up" : down
        let whole = "\(relay) · keys act on \(panes[selected].name)" + (hint.map { " · \($0)" } ?? "")
        // The hint is shown only once, whereas the selected pane is visible in the panes too.
        let text = hint.map { whole.columns > width ? "\(relay) · \($0)" : whole } ?? whole
        let line = paint.fit(text, width)
        return isRelayRunning ? line : paint.red(line)
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

    /// Green: up to date; yellow: pending or behind; red: offline.
    private func dots(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let newest = Dictionary(grouping: panes, by: \.user)
            .compactMapValues { $0.max { Int($0.contents.token) ?? 0 < Int($1.contents.token) ?? 0 }?.contents.all }
        let perLine = max(1, width / 4)
        var lines = ["\(panes.count) clients", "● up to date  ◐ behind or pending  ○ offline", ""]
            .map { paint.fit($0, width) }
        for start in stride(from: 0, to: panes.count, by: perLine) where lines.count < height {
            let row = panes[start..<min(start + perLine, panes.count)].enumerated().map { offset, pane in
                let mark = start + offset == selected ? ">" : " "
                if !pane.isOnline { return mark + paint.red("○") + "  " }
                let isBehind = !pane.isLive || pane.contents.all != newest[pane.user] || pane.contents.pending > 0
                return mark + (isBehind ? paint.yellow("◐") : paint.green("●")) + "  "
            }
            lines.append(row.joined() + String(repeating: " ", count: width - 4 * row.count))
        }
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

    /// Returns exactly `height` lines of `width` columns.
    func lines(_ paint: DemoPaint) -> [String] {
        let rows = content(height - 2).map { "│" + paint.fit(" " + $0, inner) + "│" }
        let foot = "└" + String(repeating: "─", count: inner) + "┘"
        let head = "┌" + paint.fit(title, inner) + "┐"
        return [isSelected ? paint.bold(head) : head] + rows + [isSelected ? paint.bold(foot) : foot]
    }

    private var title: String {
        let offline = isNarrow ? "○ off" : "○ offline"
        let state = !pane.isOnline ? offline : pane.isLive ? "●" : isNarrow ? "◌" : "◌ connecting"
        let name = isNarrow ? " \(pane.user)/\(pane.device) " : " \(pane.name) "
        let fill = String(repeating: "─", count: max(0, inner - name.count - state.count - 2))
        return "\(name)\(fill) \(state) "
    }

    private func content(_ room: Int) -> [String] {
        let contents = pane.contents
        let posts = contents.posts.suffix(room >= 12 ? 2 : 1).map { "  \($0)" }
        let pending =
            contents.pending > 0 ? isNarrow ? "  ✎ \(contents.pending)" : "  ✎ pending \(contents.pending)" : ""
        let head = (isNarrow ? "Notes  token " : "PRIVATE Notes  token ") + contents.token + pending
        let poll = pane.isOnline ? pane.secondsToPoll.map { "next \($0) s" } ?? "polling" : "paused"
        let foot = ["PUBLIC Board  \(poll)"] + posts
        let middle = max(0, room - 1 - foot.count)
        let wanted = contents.lists.reduce(0) { $0 + 1 + $1.notes.count }
        // Lists get the space that the user's own notes leave, at least half of it.
        let shared = lists(contents.lists, min(wanted, max(middle / 2, middle - contents.notes.count)))
        let own = notes(contents.notes, middle - shared.count)
        let blank = Array(repeating: "", count: max(0, middle - own.count - shared.count))
        return Array(([head] + own + blank + shared + foot).prefix(room))
    }

    private func lists(_ lists: [DemoList], _ room: Int) -> [String] {
        guard room > 0, !lists.isEmpty else { return [] }
        let each = room / lists.count
        let drawn = lists.flatMap { list -> [String] in
            let arrow = list.isMine ? "→" : "←"
            // The permission comes first, so that it is not cut off at 80 columns.
            let right = list.people.isEmpty ? "" : " \(list.right.rawValue)"
            let head = "⇄\(right) \(list.title) \(arrow) \(list.people.joined(separator: ", "))"
            return [head] + notes(list.notes, min(list.notes.count, each - 1))
        }
        return Array(drawn.prefix(room))
    }

    /// Returns as many notes as fit, including the newest and the selected one.
    private func notes(_ notes: [DemoNote], _ room: Int) -> [String] {
        guard room > 0 else { return [] }
        let lines = notes.map { note in
            let mark = isSelected && note.name == pane.selectedNote ? "›" : " "
            return "\(mark) \(note.done ? "☑" : "☐") \(note.title)"
        }
        guard lines.count > room else { return lines }
        let chosen = notes.firstIndex { $0.name == pane.selectedNote } ?? notes.count - 1
        let shown = room - 1
        let start = min(max(0, chosen - shown / 2), lines.count - shown)
        return ["  … \(lines.count - shown) more"] + lines[start..<start + shown]
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

    /// Formats a log line; checks, refusals and lines with addresses are wrapped instead of cut.
    func log(_ line: String, _ width: Int) -> [String] {
        let isCheck = line.contains(" check ")
        let isWhole = isCheck || line.contains(" refused ")
        // An address and its text fit side by side only from the start of the line.
        let indent: Int? = isWhole ? min(33, width / 3) : cutsAddress(line, width) ? 2 : nil
        let cut = (indent.map { wrapped(line, width, indent: $0) } ?? [line]).map { fit($0, width) }
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

    /// Wraps a line between words.
    func wrapped(_ line: String, _ width: Int, indent: Int = 0) -> [String] {
        let indent = String(repeating: " ", count: indent)
        var lines: [String] = []
        // Runs of spaces between columns count as empty words.
        var words = line.split(separator: " ", omittingEmptySubsequences: false)[...]
        var last = String(words.popFirst() ?? "")
        for word in words {
            if last.columns + 1 + word.columns > width {
                lines.append(last)
                last = indent + word
            } else {
                last += " " + word
            }
        }
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
