import Records
import RelayServer
import Testing

/// When an alert is sent.
@Suite struct AlertWatchTests {
    private static let start = Timestamp(milliseconds: 1_800_000_000_000)

    private static let rule: AlertRule = {
        guard let disk = AlertRule.all.first(where: { $0.id == "disk" }) else { preconditionFailure("no rule") }
        return disk
    }()

    /// Returns the messages sent for a course of free gigabytes, one reading per minute.
    private func messages(_ course: [Double?], muted: Set<Int> = []) -> [String] {
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

    @Test func anAlertIsSentOnceAtItsStartAndOnceAtItsEnd() {
        #expect(messages([5, 5, 1, 1, 1, 5, 5, 5, 5, 5, 5]) == ["3 firing", "9 resolved"])
    }

    @Test func aFlappingReadingSendsNoMessages() {
        #expect(messages([1, 5, 1, 5, 1, 5]) == [])
        #expect(messages([1, 1, 5, 1, 5, 5, 1, 5, 1]) == ["1 firing"])
    }

    @Test func anUnknownReadingNeitherStartsNorEndsAnAlert() {
        #expect(messages([1, 1] + [Double?](repeating: nil, count: 30)) == ["1 firing"])
        #expect(messages([nil, nil, 5]) == [])
    }

    @Test func aLastingAlertIsRepeatedDaily() {
        let days = [Double?](repeating: 1, count: 60 * 24 * 2 + 2)
        #expect(messages(days) == ["1 firing", "1441 reminder", "2881 reminder"])
    }

    @Test func aClockThatIsPutBackDoesNotDelayReminders() {
        var watch = AlertWatch()
        func messages(_ value: Double, _ now: Timestamp) -> [AlertMessage.State] {
            let reading = AlertReading(rule: Self.rule, limit: Self.rule.limit, value: value * 1_000_000_000)
            return watch.look(at: [reading], now: now).map(\.state)
        }
        let ahead = Self.start + .seconds(365 * 86_400)
        #expect(messages(1, ahead) == [])
        #expect(messages(1, ahead) == [.firing])
        #expect(messages(1, Self.start) == [])
        #expect(messages(1, Self.start + .seconds(86_400)) == [.reminder])
        #expect(messages(5, Self.start + .seconds(86_460)) == [])
        #expect(messages(5, Self.start + .seconds(86_700)) == [.resolved])
    }

    @Test func aMutedAlertSendsNothingUntilTheMuteEnds() {
        #expect(messages([1, 1, 1, 1, 1], muted: [0, 1, 2]) == ["4 firing"])
        #expect(
            messages([1, 1, 5, 5, 5, 5, 5, 5, 5], muted: [2]) == ["1 firing"],
            "an alert that ends while muted is not reported"
        )
    }

    @Test func theMessageSuggestsARemedy() {
        var watch = AlertWatch()
        let reading = AlertReading(rule: Self.rule, limit: 2e9, value: 1.8e9)
        _ = watch.look(at: [reading], now: Self.start)
        let text = watch.look(at: [reading], now: Self.start + .seconds(60)).first?.text ?? ""
        #expect(text.hasPrefix("Free disk space: 1.8 GB, under 2.0 GB. "))
        #expect(text.contains("zonecast storage copy"))
    }
}
