import Records
import RelayCore
import RelayServer
import Synchronization
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

/// Alerts of several relays on the same data.
@Suite struct SharedAlertTests {
    private static let start = Timestamp(milliseconds: 1_800_000_000_000)

    private static func rule(_ id: String) -> AlertRule {
        guard let rule = AlertRule.all.first(where: { $0.id == id }) else { preconditionFailure("no rule") }
        return rule
    }

    /// Incidents in a database that can be down.
    private final class Database: AlertIncidents {
        let incidents = AlertIncidentsInMemory()
        private let down = Mutex(false)
        var isDown: Bool {
            get { down.withLock { $0 } }
            set { down.withLock { $0 = newValue } }
        }

        private func check() throws(DirectoryError) { if isDown { throw .unavailable("") } }

        func fires(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> AlertNews? {
            try check()
            return incidents.fires(rule, at: now, times)
        }

        func clears(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> Bool {
            try check()
            return incidents.clears(rule, at: now, times)
        }

        func forget(_ rule: String) throws(DirectoryError) {
            try check()
            incidents.forget(rule)
        }
    }

    /// Returns the messages of three relays that read the same values, one reading per minute; `during` is called before
    /// each.
    private func messages(
        _ course: [[Double]],
        of rule: AlertRule,
        in database: Database = Database(),
        during: (Int) -> Void = { _ in }
    ) -> [String] {
        var watches = (0..<3).map { _ in AlertWatch(shared: database) }
        return course.enumerated().flatMap { minute, values in
            during(minute)
            let now = Self.start + .seconds(60 * minute)
            return watches.indices.flatMap { node in
                let reading = AlertReading(rule: rule, limit: rule.limit, value: values[node])
                return watches[node].look(at: [reading], now: now).map { "\(minute) node \(node) \($0.state.rawValue)" }
            }
        }
    }

    @Test func oneRelayTellsOfAConditionThatAllHave() {
        let slow = [[Double]](repeating: [900, 900, 900], count: 3)
        let quick = [[Double]](repeating: [1, 1, 1], count: 6)
        #expect(messages(slow + quick, of: Self.rule("slow-commits")) == ["1 node 0 firing", "7 node 0 resolved"])
    }

    @Test func aConditionIsOverWhenNoRelayHasIt() {
        let course =
            [[900, 900, 1], [900, 900, 1]] + [[Double]](repeating: [1, 900, 1], count: 8)
            + [[Double]](repeating: [1, 1, 1], count: 6)
        #expect(messages(course, of: Self.rule("slow-commits")) == ["1 node 0 firing", "14 node 0 resolved"])
    }

    @Test func anotherRelayTellsTheEndIfTheOneThatToldTheBeginHasDied() {
        let database = Database()
        var first = AlertWatch(shared: database)
        var second = AlertWatch(shared: database)
        let rule = Self.rule("slow-commits")
        func reading(_ value: Double) -> [AlertReading] { [AlertReading(rule: rule, limit: rule.limit, value: value)] }
        #expect(first.look(at: reading(900), now: Self.start).isEmpty)
        #expect(first.look(at: reading(900), now: Self.start + .seconds(60)).map(\.state) == [.firing])
        #expect(second.look(at: reading(1), now: Self.start + .seconds(120)).isEmpty)
        #expect(second.look(at: reading(1), now: Self.start + .seconds(360)).map(\.state) == [.resolved])
    }

    @Test func eachRelayTellsOfItsOwnDisk() {
        let full = [[Double]](repeating: [1, 1, 9e9], count: 3)
        #expect(messages(full, of: Self.rule("disk")) == ["1 node 0 firing", "1 node 1 firing"])
    }

    @Test func whileTheDatabaseIsDownEachRelayTellsOnceAndNotAgainLater() {
        let database = Database()
        let course = [[Double]](repeating: [900, 900, 1], count: 6)
        let sent = messages(course, of: Self.rule("slow-commits"), in: database) { database.isDown = $0 < 3 }
        #expect(sent == ["1 node 0 firing", "1 node 1 firing"])
    }
}
