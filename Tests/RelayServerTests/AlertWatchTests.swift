import Records
import RelayServer
import RelayStore
import Testing

/// When somebody is told of an alert, and when not.
@Suite struct AlertWatchTests {
    private static let start = Timestamp(milliseconds: 1_800_000_000_000)

    private static let rule: AlertRule = {
        guard let disk = AlertRule.all.first(where: { $0.id == "disk" }) else { preconditionFailure("no rule") }
        return disk
    }()

    /// What is told at each minute of a course of free gigabytes.
    private func told(_ course: [Double?], muted: Set<Int> = []) -> [String] {
        var watch = AlertWatch()
        return course.enumerated().flatMap { minute, value in
            let now = Self.start + .seconds(60 * minute)
            let reading = AlertReading(
                rule: Self.rule,
                limit: Self.rule.limit,
                value: value.map { $0 * 1_000_000_000 },
                mutedUntil: muted.contains(minute) ? now + .seconds(1) : nil
            )
            return watch.look(at: [reading], now: now).map { "\(minute) \($0.state.rawValue)" }
        }
    }

    @Test func onceWhenItBeginsAndOnceWhenItEnds() {
        #expect(told([5, 5, 1, 1, 1, 5, 5, 5, 5, 5, 5]) == ["3 firing", "9 resolved"])
    }

    @Test func whatComesAndGoesIsNoMessage() {
        #expect(told([1, 5, 1, 5, 1, 5]) == [])
        #expect(told([1, 1, 5, 1, 5, 5, 1, 5, 1]) == ["1 firing"])
    }

    @Test func whatIsNotKnownIsNeither() {
        #expect(told([1, 1] + [Double?](repeating: nil, count: 30)) == ["1 firing"])
        #expect(told([nil, nil, 5]) == [])
    }

    @Test func onceADayWhileItLasts() {
        let days = [Double?](repeating: 1, count: 60 * 24 * 2 + 2)
        #expect(told(days) == ["1 firing", "1441 reminder", "2881 reminder"])
    }

    @Test func aClockThatIsPutBackKeepsNobodyWaiting() {
        var watch = AlertWatch()
        func told(_ value: Double, _ now: Timestamp) -> [AlertMessage.State] {
            let reading = AlertReading(rule: Self.rule, limit: Self.rule.limit, value: value * 1_000_000_000)
            return watch.look(at: [reading], now: now).map(\.state)
        }
        let ahead = Self.start + .seconds(365 * 86_400)
        #expect(told(1, ahead) == [])
        #expect(told(1, ahead) == [.firing])
        #expect(told(1, Self.start) == [])
        #expect(told(1, Self.start + .seconds(86_400)) == [.reminder])
        #expect(told(5, Self.start + .seconds(86_460)) == [])
        #expect(told(5, Self.start + .seconds(86_700)) == [.resolved])
    }

    @Test func silenceIsKeptAndEnds() {
        #expect(told([1, 1, 1, 1, 1], muted: [0, 1, 2]) == ["4 firing"])
        #expect(
            told([1, 1, 5, 5, 5, 5, 5, 5, 5], muted: [2]) == ["1 firing"],
            "nobody is told of an end after a silence"
        )
    }

    @Test func theMessageSaysWhatToDo() {
        var watch = AlertWatch()
        let reading = AlertReading(rule: Self.rule, limit: 2e9, value: 1.8e9)
        _ = watch.look(at: [reading], now: Self.start)
        let text = watch.look(at: [reading], now: Self.start + .seconds(60)).first?.text ?? ""
        #expect(text.hasPrefix("Free disk space: 1.8 GB, under 2.0 GB. "))
        #expect(text.contains("zonecast storage copy"))
    }
}
