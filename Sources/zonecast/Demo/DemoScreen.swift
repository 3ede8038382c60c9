/// One moment of the live demo as lines of text: panes side by side, the log under them, the keys at the bottom.
///
/// A pure function of its values, `width` and `height`; no line is longer than `width` characters.
struct DemoScreen: Sendable {
    struct Note: Hashable, Sendable {
        var title: String
        var isDone: Bool
        var isPending: Bool
    }

    struct Pane: Hashable, Sendable {
        var name: String
        var isOnline: Bool
        var isSelected: Bool
        /// The newest change tag it holds.
        var position: String
        var pending: Int
        var notes: [Note]
        var board: [String]
    }

    var panes: [Pane]
    /// Clients beyond the panes: whether each is in step with the first.
    var dots: [Bool] = []
    var log: [String]
    var isRelayUp: Bool
    var width: Int
    var height: Int
    var usesColor: Bool

    private static let keys = "1-3 client  a add  e edit  t tick  d delete  o offline  k kill/restart relay  q quit"

    /// Exactly `height` lines.
    func lines() -> [String] {
        let logHeight = max(3, height / 3)
        let paneHeight = max(4, height - logHeight - 2 - (dots.isEmpty ? 0 : 1))
        let columns = panes.map { column($0, width: paneWidth, height: paneHeight) }
        var lines = (0..<paneHeight).map { row in columns.map { $0[row] }.joined() }
        if !dots.isEmpty { lines.append(fit(" " + dots.map { $0 ? "●" : "○" }.joined(), width)) }
        lines.append(rule)
        let shown = log.suffix(logHeight)
        lines += shown.map { fit($0, width) }
        lines += Array(repeating: fit("", width), count: logHeight - shown.count)
        lines.append(paint(fit(Self.keys, width), "2"))
        return Array(lines.prefix(height))
    }

    private var paneWidth: Int { width / max(panes.count, 1) }

    private var rule: String {
        let state = isRelayUp ? " relay ● " : " relay ○ down "
        return fit("──" + state + String(repeating: "─", count: max(0, width - state.count - 2)), width)
    }

    private func column(_ pane: Pane, width: Int, height: Int) -> [String] {
        let title = " \(pane.name) "
        let mark = pane.isOnline ? "●" : "○"
        let line = String(repeating: "─", count: max(0, width - title.count - 5))
        let top = fit("┌\(title)\(line)\(mark) ┐", width)
        var body = [
            "token \(pane.position.isEmpty ? "–" : pane.position)  pending \(pane.pending)\(pane.isOnline ? "" : "  offline")"
        ]
        let boardRows = pane.board.isEmpty ? 0 : min(pane.board.count + 1, 3)
        let room = height - 3 - boardRows
        let notes = pane.notes.suffix(max(room, 0))
        body += notes.map { "\($0.isDone ? "☑" : "☐") \($0.isPending ? "✎ " : "")\($0.title)" }
        while body.count < height - 2 - boardRows { body.append("") }
        if boardRows > 0 {
            body.append("PUBLIC Board")
            body += pane.board.suffix(boardRows - 1).map { "· " + $0 }
        }
        let inside = body.prefix(height - 2).map { "│ " + fit($0, width - 4) + " │" }
        let bottom = "└" + String(repeating: "─", count: max(0, width - 2)) + "┘"
        let color = pane.isSelected ? "1" : "0"
        return [paint(top, color)] + inside + [bottom]
    }

    private func paint(_ text: String, _ code: String) -> String {
        usesColor && code != "0" ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }

    /// Cut or filled up to `width` characters.
    private func fit(_ text: String, _ width: Int) -> String {
        guard text.count > width else { return text + String(repeating: " ", count: width - text.count) }
        return width > 1 ? text.prefix(width - 1) + "…" : String(text.prefix(max(width, 0)))
    }
}
