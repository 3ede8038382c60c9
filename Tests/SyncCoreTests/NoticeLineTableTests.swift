import Foundation
import Records
import SyncCore
import Testing

/// The rows of `Tests/NoticeLineTable.json` hold for this client and for `zonecast.js`, which `ClientModuleTests`
/// tests.
@Suite struct NoticeLineTableTests {
    struct Row: Decodable, CustomTestStringConvertible {
        struct Step: Decodable {
            var at: Double
            var event: String
            var value: Double?
            var effects: [String]
        }

        var name: String
        /// Determines random draws: 0 for the bottom of their range, 1 for the top.
        var chance: Int
        var steps: [Step]
        var testDescription: String { name }
    }

    static let rows: [Row] = {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let table = tests.appendingPathComponent("NoticeLineTable.json")
        return (try? JSONDecoder().decode([Row].self, from: Data(contentsOf: table))) ?? []
    }()

    @Test("the table can be read")
    func table() { #expect(Self.rows.count > 30) }

    @Test("the Swift client reacts as the table says", arguments: rows)
    func reactions(_ row: Row) throws {
        var line = NoticeLine()
        for step in row.steps {
            let event = try #require(Self.event(step), "\(step.event) is no event")
            let effects =
                row.chance == 0
                ? Self.handle(event, step, &line, LowestRandom()) : Self.handle(event, step, &line, HighestRandom())
            #expect(effects == step.effects, "\(step.event) at \(step.at) s")
        }
    }

    private static func handle(
        _ event: NoticeLine.Event,
        _ step: Row.Step,
        _ line: inout NoticeLine,
        _ random: some RandomNumberGenerator
    ) -> [String] {
        var random = random
        return line.handle(event, at: at(step.at), using: &random).map { words($0, at(step.at)) }
    }

    private static func event(_ step: Row.Step) -> NoticeLine.Event? {
        switch step.event {
        case "started": .started
        case "opened": .opened
        case "ready": .ready
        case "heard": .heard
        case "goodbye": .goodbye(retryAfter: step.value.map { .seconds($0) })
        case "closed": .closed(code: step.value.map { UInt16($0) })
        case "credentialsChanged": .credentialsChanged
        case "networkReturned": .networkReturned
        case "timerFired": .timerFired
        case "stopped": .stopped
        default: nil
        }
    }

    private static func words(_ effect: NoticeLine.Effect, _ now: Moment) -> String {
        switch effect {
        case .connect: "connect"
        case .sendHello: "sendHello"
        case .ping: "ping"
        case .drop: "drop"
        case .wake(nil): "wake"
        case .wake(let moment?): "wake \(seconds((moment - now).inSeconds))"
        case .isLive(let isLive): isLive ? "live" : "lost"
        case .needsCredentials(let isRenewable): isRenewable ? "needsCredentials renewable" : "needsCredentials"
        }
    }

    /// Formats seconds with up to three digits, whole seconds without a fraction.
    private static func seconds(_ seconds: Double) -> String {
        let rounded = (seconds * 1000).rounded() / 1000
        return Int(exactly: rounded).map(String.init) ?? "\(rounded)"
    }
}
