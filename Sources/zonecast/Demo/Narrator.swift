import Foundation
import Synchronization

/// Tells what happens, a line a step: to standard output, or into the log of the panes.
final class Narrator: Sendable {
    private let start = ContinuousClock.now
    private let lines = Mutex<[String]>([])
    private let saves = Mutex<[String: ContinuousClock.Instant]>([:])
    private let delays = Mutex<[Duration]>([])
    private let isPlain: Bool
    private let isQuiet = Mutex(false)

    /// Lines the panes can look back at.
    private static let kept = 200

    init(isPlain: Bool) { self.isPlain = isPlain }

    /// Says nothing of single steps for a while: with fifty clients they would be thousands.
    func quiet(_ flag: Bool) { isQuiet.withLock { $0 = flag } }

    /// One step of one client: what it did and to what.
    func step(_ who: String, _ verb: String, _ what: String) {
        guard !isQuiet.withLock({ $0 }) else { return }
        say("\(stamp)  \(Self.padded(who, 13)) \(Self.padded(verb, 7)) \(what)")
    }

    /// A line that is no client's step.
    func say(_ line: String) {
        if isPlain { return Terminal.say(line) }
        lines.withLock { lines in
            lines.append(line)
            if lines.count > Self.kept { lines.removeFirst(lines.count - Self.kept) }
        }
    }

    /// Seconds since the demo began.
    var stamp: String { String(format: "%5.2fs", (ContinuousClock.now - start) / .seconds(1)) }

    func last(_ count: Int) -> [String] { lines.withLock { Array($0.suffix(count)) } }

    // MARK: How long a change takes

    /// A version of a note was saved here and now; `version` is any text that tells it from others.
    func saved(_ version: String) { saves.withLock { $0[version] = ContinuousClock.now } }

    /// The version is visible on another client; gives the milliseconds since it was saved.
    func shown(_ version: String) -> Int? {
        guard let start = saves.withLock({ $0[version] }) else { return nil }
        let delay = ContinuousClock.now - start
        delays.withLock { $0.append(delay) }
        return Int((delay / .milliseconds(1)).rounded())
    }

    /// Forgets the delays measured so far: what was away has no delay worth the name.
    func resetDelays() {
        saves.withLock { $0 = [:] }
        delays.withLock { $0 = [] }
    }

    /// The median of the delays since the last reset, in milliseconds.
    var medianDelay: Int? {
        let sorted = delays.withLock { $0.sorted() }
        return sorted.isEmpty ? nil : Int((sorted[sorted.count / 2] / .milliseconds(1)).rounded())
    }

    static func padded(_ text: String, _ width: Int) -> String {
        text.count >= width ? text : text + String(repeating: " ", count: width - text.count)
    }
}
