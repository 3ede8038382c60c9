import Foundation

/// What the panes show, as values: drawing is a function from this to lines, with nothing behind it.
struct DemoScreen: Equatable, Sendable {
    struct Pane: Equatable, Sendable {
        var user: String
        var device: String
        var isOnline: Bool
        var isLive: Bool
        var token: String
        var pending: Int
        var notes: [DemoNote]
        var board: [String]
        /// `nil`: a poll is under way, or paused.
        var secondsToPoll: Int?

        var name: String { "\(user) / \(device)" }
    }

    var panes: [Pane]
    var log: [String]
    /// Which pane the keys act on.
    var selected: Int
    var isRelayRunning: Bool
    var isOurRelay: Bool
    var hint: String?

    /// The whole screen: exactly `height` lines of `width` columns.
    func lines(width: Int, height: Int, hasColour: Bool) -> [String] {
        let paint = DemoPaint(hasColour: hasColour)
        guard width >= 40, height >= 12 else {
            return [paint.fit("The window is too small: 40 columns and 12 lines are needed.", width)]
                + Array(repeating: "", count: max(0, height - 1))
        }
        let body = height - 2
        let top = panes.count > 3 ? grid(width, body / 2, paint) : columns(width, max(6, body * 3 / 5), paint)
        let logLines = log.suffix(body - top.count).map { paint.log($0, width) }
        let blank = Array(repeating: "", count: max(0, body - top.count - logLines.count))
        return top + logLines + blank + [status(width, paint), paint.dim(paint.fit(keys(width), width))]
    }

    private func keys(_ width: Int) -> String {
        let kill = isOurRelay ? "  k kill/restart relay" : ""
        let long = "1-\(min(9, panes.count)) client  a add  e edit  d delete  o offline  p post  t tour\(kill)  q quit"
        guard long.count > width else { return long }
        return
            "1-\(min(9, panes.count)) a add e edit d delete o offline p post t tour\(isOurRelay ? " k kill" : "") q quit"
    }

    private func status(_ width: Int, _ paint: DemoPaint) -> String {
        let relay = isRelayRunning ? "relay up" : "relay DOWN: k starts it again"
        let text = "\(relay) · keys act on \(panes[selected].name)" + (hint.map { " · \($0)" } ?? "")
        let line = paint.fit(text, width)
        return isRelayRunning ? line : paint.red(line)
    }

    // MARK: Up to three panes

    private func columns(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let each = width / panes.count
        let drawn = panes.enumerated().map { number, pane in
            column(pane, isSelected: number == selected, each, height, paint)
        }
        return (0..<height).map { row in drawn.map { $0[row] }.joined() }
    }

    private func column(
        _ pane: Pane,
        isSelected: Bool,
        _ width: Int,
        _ height: Int,
        _ paint: DemoPaint
    ) -> [String] {
        let inner = width - 2
        // At 80 columns a pane has 24 inside: the words give way, never the figures.
        let isNarrow = inner < 34
        let state =
            !pane.isOnline ? (isNarrow ? "○ off" : "○ offline") : pane.isLive ? "●" : isNarrow ? "◌" : "◌ connecting"
        let title = isNarrow ? " \(pane.user)/\(pane.device) " : " \(pane.name) "
        let fill = String(repeating: "─", count: max(0, inner - title.count - state.count - 2))
        let head = "┌" + paint.fit("\(title)\(fill) \(state) ", inner) + "┐"
        let room = max(1, height - 5 - min(3, pane.board.count + 1))
        let pending = pane.pending > 0 ? isNarrow ? "  ✎ \(pane.pending)" : "  ✎ pending \(pane.pending)" : ""
        var content = [(isNarrow ? "Notes  token " : "PRIVATE Notes  token ") + pane.token + pending]
        content += notes(pane, room)
        let poll = pane.isOnline ? pane.secondsToPoll.map { "next \($0) s" } ?? "polling" : "paused"
        content.append("PUBLIC Board  \(poll)")
        content += pane.board.sorted().suffix(max(0, height - 2 - content.count)).map { "  \($0)" }
        content += Array(repeating: "", count: max(0, height - 2 - content.count))
        let rows = content.prefix(height - 2).map { "│" + paint.fit(" " + $0, inner) + "│" }
        let foot = "└" + String(repeating: "─", count: inner) + "┘"
        return [isSelected ? paint.bold(head) : head] + rows + [isSelected ? paint.bold(foot) : foot]
    }

    private func notes(_ pane: Pane, _ room: Int) -> [String] {
        let shown = pane.notes.suffix(room)
        let lines = shown.map { "  \($0.isDone ? "☑" : "☐") \($0.title)" }
        guard shown.count < pane.notes.count else {
            return lines + Array(repeating: "", count: max(0, room - lines.count))
        }
        return ["  … \(pane.notes.count - shown.count + 1) more"] + lines.dropFirst()
    }

    // MARK: Many clients

    /// One dot for each client: green up to date, yellow pending or behind, red offline.
    private func grid(_ width: Int, _ height: Int, _ paint: DemoPaint) -> [String] {
        let newest = Dictionary(grouping: panes, by: \.user).mapValues { $0.compactMap { Int($0.token) }.max() ?? 0 }
        let perLine = max(1, width / 4)
        var lines = ["\(panes.count) clients   ● up to date   ◐ behind or pending   ○ offline"]
        for start in stride(from: 0, to: panes.count, by: perLine) where lines.count < height {
            let row = panes[start..<min(start + perLine, panes.count)].enumerated().map { offset, pane in
                let lag = (newest[pane.user] ?? 0) - (Int(pane.token) ?? 0)
                let mark = start + offset == selected ? ">" : " "
                if !pane.isOnline { return mark + paint.red("○") + "  " }
                return mark + (lag > 0 || pane.pending > 0 ? paint.yellow("◐") : paint.green("●")) + "  "
            }
            lines.append(row.joined())
        }
        lines[0] = paint.fit(lines[0], width)
        return lines
    }
}

/// Colours, or their absence, and cutting to width.
struct DemoPaint: Sendable {
    var hasColour: Bool

    func bold(_ text: String) -> String { code("1", text) }
    func dim(_ text: String) -> String { code("2", text) }
    func red(_ text: String) -> String { code("31", text) }
    func green(_ text: String) -> String { code("32", text) }
    func yellow(_ text: String) -> String { code("33", text) }

    func log(_ line: String, _ width: Int) -> String {
        let cut = fit(line, width)
        if line.contains("✘") || line.contains("kill -9") || line.contains("refused") { return red(cut) }
        if line.contains("✔") || line.contains(" check ") { return green(cut) }
        return line.contains("conflict") || line.contains("offline") ? yellow(cut) : cut
    }

    /// Exactly so many characters: cut with an ellipsis, or filled with blanks.
    func fit(_ text: String, _ width: Int) -> String {
        if text.count > width { return String(text.prefix(max(0, width - 1))) + "…" }
        return text + String(repeating: " ", count: width - text.count)
    }

    private func code(_ code: String, _ text: String) -> String {
        hasColour ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}
