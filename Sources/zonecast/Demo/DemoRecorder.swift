import Foundation
import RelayCore
import RelaySystem
import Synchronization

/// A recording of the panes: `.cast` for asciinema's player (version 2), or an animated `.svg`.
///
/// Frames are stored when they change, at most ten per second for a cast and two for an SVG.
final class DemoRecorder: Sendable {
    enum Form: Sendable {
        case cast
        case svg

        init?(path: String) {
            switch (path as NSString).pathExtension.lowercased() {
            case "cast": self = .cast
            case "svg": self = .svg
            default: return nil
            }
        }

        fileprivate var pause: Double { self == .cast ? 0.1 : 0.5 }
    }

    /// A frame and its start time, in seconds.
    struct Picture: Equatable, Sendable {
        var seconds: Double
        var lines: [String]
    }

    static let width = 100
    static let height = 30

    private let path: String
    private let form: Form
    private let pictures = Mutex<[Picture]>([])
    private let start = ContinuousClock.now
    private let isOver = Mutex(false)
    private let isNew: Bool

    /// Opens the file; throws if it cannot be written, before the demo starts.
    init(path: String, form: Form) throws {
        self.path = path
        self.form = form
        isNew = !FileManager.default.fileExists(atPath: path)
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw Self.failure(path, String(cString: strerror(errno))) }
        close(file)
    }

    private static func failure(_ path: String, _ why: String) -> CommandFailure {
        CommandFailure(.failed, "The recording cannot be written to \(path): \(why). Name another file with --record.")
    }

    /// Stores a frame, unless it equals the last one or follows it too soon.
    ///
    /// The last frame is always stored.
    func take(_ screen: DemoScreen, isLast: Bool = false) {
        let seconds = (ContinuousClock.now - start).milliseconds / 1000
        let lines = screen.lines(width: Self.width, height: Self.height, hasColour: true)
        pictures.withLock { pictures in
            if let last = pictures.last {
                if last.lines == lines || !isLast && seconds - last.seconds < form.pause { return }
            }
            pictures.append(Picture(seconds: seconds, lines: lines))
        }
    }

    /// Writes the file, once; if the demo ends early, the frames so far.
    func end() throws {
        try isOver.withLock { isOver in
            guard !isOver else { return }
            isOver = true
            try write()
        }
    }

    private func write() throws {
        let pictures = pictures.withLock { $0 }
        guard let first = pictures.first else {
            // Without frames, remove the empty file that `init` created.
            if isNew { unlink(path) }
            return
        }
        let shifted = pictures.map { Picture(seconds: $0.seconds - first.seconds, lines: $0.lines) }
        let text = form == .cast ? try Self.cast(shifted) : DemoDrawing(pictures: shifted).svg
        do {
            try text.write(toFile: path, atomically: true, encoding: .utf8)
        } catch {
            throw Self.failure(path, FolderAccess.reason(error))
        }
    }

    private struct CastHead: Encodable {
        var version = 2
        var width = DemoRecorder.width
        var height = DemoRecorder.height
        var title = "zonecast demo"
    }

    static func cast(_ pictures: [Picture]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var lines = [String(decoding: try encoder.encode(CastHead()), as: UTF8.self)]
        for picture in pictures {
            let body = picture.lines.map { $0 + "\u{1B}[0m\u{1B}[K" }.joined(separator: "\r\n")
            let data = String(decoding: try encoder.encode("\u{1B}[H\(body)\u{1B}[J"), as: UTF8.self)
            lines.append("[\(String(format: "%.3f", picture.seconds)), \"o\", \(data)]")
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

/// Terminal frames as one animated SVG: the frames are side by side, and a window moves along them.
///
/// A line that occurs in many frames is stored once.
struct DemoDrawing {
    let pictures: [DemoRecorder.Picture]
    private let cell = (width: 8.4, height: 18.0)
    /// How long the last frame stays, in seconds.
    private let rest = 4.0

    init(pictures: [DemoRecorder.Picture]) { self.pictures = pictures }

    var svg: String {
        let width = Double(DemoRecorder.width) * cell.width + 16
        let height = Double(DemoRecorder.height) * cell.height + 16
        let total = (pictures.last?.seconds ?? 0) + rest
        var numbers: [String: Int] = [:]
        var symbols = ""
        var strip = ""
        var steps = ""
        for (number, picture) in pictures.enumerated() {
            let shift = String(format: "%.1f", Double(number) * width)
            steps += String(format: "%.3f%%", picture.seconds / total * 100) + "{transform:translateX(-\(shift)px)}"
            strip += "<g transform=\"translate(\(shift),0)\">"
            for (row, line) in picture.lines.enumerated() where !line.allSatisfy({ $0 == " " }) {
                if numbers[line] == nil {
                    numbers[line] = numbers.count
                    symbols += "<text id=\"l\(numbers.count - 1)\" xml:space=\"preserve\">\(Self.spans(line))</text>\n"
                }
                let y = String(format: "%.0f", 8 + Double(row + 1) * cell.height - 4)
                strip += "<use href=\"#l\(numbers[line] ?? 0)\" x=\"8\" y=\"\(y)\"/>"
            }
            strip += "</g>\n"
        }
        let size = String(format: "%.0f %.0f", width, height)
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(size)" role="img" \
            aria-label="A recording of zonecast demo">
            <style>
            text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}
            .c1{font-weight:bold}.c2{fill:#8a93a5}.c31{fill:#ff6b6b}.c32{fill:#8fd694}.c33{fill:#f2c94c}
            .s{animation:s \(String(format: "%.2f", total))s steps(1,end) infinite}
            @keyframes s{\(steps)}
            </style>
            <rect width="100%" height="100%" rx="6" fill="#1b1f27"/>
            <defs>
            \(symbols)</defs>
            <g class="s">
            \(strip)</g>
            </svg>

            """
    }

    /// Converts colour codes to spans with fixed columns, whatever width the font gives to box lines.
    private static func spans(_ line: String) -> String {
        var spans = ""
        var column = 0
        var colour: String?
        for (number, part) in line.split(separator: "\u{1B}", omittingEmptySubsequences: false).enumerated() {
            var text = part
            if number > 0, let end = part.firstIndex(of: "m") {
                let code = part[part.index(after: part.startIndex)..<end]
                colour = code == "0" ? nil : String(code)
                text = part[part.index(after: end)...]
            }
            guard !text.isEmpty else { continue }
            let length = String(format: "%.1f", Double(text.count) * 8.4)
            let style = colour.map { " class=\"c\($0)\"" } ?? ""
            let x = String(format: "%.1f", Double(column) * 8.4)
            spans += "<tspan x=\"\(x)\" textLength=\"\(length)\"\(style)>\(escaped(text))</tspan>"
            column += text.count
        }
        return spans
    }

    private static func escaped(_ text: Substring) -> String {
        text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
            .replacingOccurrences(of: ">", with: "&gt;")
    }
}
