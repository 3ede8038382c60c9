import GRDB
import Records
import RelayCore
import RelayStore
import Synchronization
import Testing

/// Operators' links and sessions, under a clock that the test advances.
@Suite struct OperatorStoreTests {
    private final class Clock: Sendable {
        let now = Mutex(Timestamp(milliseconds: 1_780_000_000_000))
        func pass(_ time: Duration) { now.withLock { $0 = $0 + time } }
        var source: TimeSource { TimeSource(now: { self.now.withLock { $0 } }, uptime: { .zero }) }
    }

    private let clock = Clock()
    private let store: AccountStore

    init() throws { store = try AccountStore(inMemory: (), time: clock.source) }

    private func enter(_ name: String = "ada") throws -> Operator {
        try store.useOperatorLink(try store.makeOperatorLink(), name: name, password: "correct horse")
    }

    @Test func aLinkExpiresAfterFifteenMinutes() throws {
        let code = try store.makeOperatorLink()
        #expect(code.count == 14)
        clock.pass(.seconds(14 * 60))
        #expect(try store.operatorLink(code).isGood)
        clock.pass(.seconds(2 * 60))
        #expect(try !store.operatorLink(code).isGood)
        #expect(throws: DirectoryError.self) {
            try store.useOperatorLink(code, name: "ada", password: "correct horse")
        }
    }

    @Test func aLinkForANewOperatorCannotChangeAnExistingOne() throws {
        _ = try enter("ada")
        let code = try store.makeOperatorLink()
        #expect(throws: DirectoryError.exists("operator ada")) {
            try store.useOperatorLink(code, name: "Ada", password: "correct horse")
        }
        // A mistake does not use up the link.
        #expect(try store.useOperatorLink(code, name: "bob", password: "correct horse").name == "bob")
        #expect(throws: DirectoryError.missing("operator eve")) { try store.makeOperatorLink(for: "eve") }
    }

    /// Otherwise a removed operator could return with a link.
    @Test func removingAnOperatorEndsTheirLinks() throws {
        _ = try enter("ada")
        let code = try store.makeOperatorLink(for: "ada")
        try store.removeOperator("ada")
        #expect(try !store.operatorLink(code).isGood)
        #expect(throws: DirectoryError.missing("link with this code")) {
            try store.useOperatorLink(code, name: "ada", password: "correct horse")
        }
    }

    @Test func aNewPasswordByLinkEndsTheOperatorsOtherLinks() throws {
        _ = try enter("ada")
        let (lost, used) = (try store.makeOperatorLink(for: "ada"), try store.makeOperatorLink(for: "ada"))
        let newcomers = try store.makeOperatorLink()
        _ = try store.useOperatorLink(used, name: "ada", password: "battery staple")
        #expect(try !store.operatorLink(lost).isGood)
        #expect(try store.operatorLink(newcomers).isGood)
    }

    @Test func aSessionEndsWhenIdleAndAtMostTwelveHoursLater() throws {
        let person = try enter()
        let rules = OperatorSessionRules()
        let idle = try store.startOperatorSession(person.id)
        clock.pass(.seconds(3 * 3600))
        #expect(try store.operatorSession(idle, rules) == nil)
        let used = try store.startOperatorSession(person.id)
        for _ in 0..<11 {
            clock.pass(.seconds(3600))
            #expect(try store.operatorSession(used, rules)?.name == "ada")
        }
        clock.pass(.seconds(3600))
        #expect(try store.operatorSession(used, rules) == nil)
    }

    @Test func aNewPasswordEndsTheOtherSessions() throws {
        let person = try enter()
        let (own, other) = (try store.startOperatorSession(person.id), try store.startOperatorSession(person.id))
        try store.setPassword("battery staple", ofOperator: person.id, keeping: own)
        #expect(try store.operatorSession(own, OperatorSessionRules()) != nil)
        #expect(try store.operatorSession(other, OperatorSessionRules()) == nil)
        #expect(try store.operator(name: "ada", password: "correct horse") == nil)
        #expect(try store.operator(name: "ada", password: "battery staple")?.id == person.id)
    }

    @Test func theAuditLogIsReadNewestFirst() throws {
        for number in 1...5 {
            let now = clock.source.now()
            try store.note(AuditEntry(at: now, actor: "ada", action: "zone.delete", subject: "Z\(number)"))
        }
        let first = try store.auditEntries(limit: 2)
        #expect(first.map(\.subject) == ["Z5", "Z4"])
        let rest = try store.auditEntries(before: first.last?.number, with: "", limit: 9)
        #expect(rest.map(\.subject) == ["Z3", "Z2", "Z1"])
        #expect(try store.auditEntries(before: nil, with: "z2", limit: 9).map(\.subject) == ["Z2"])
        #expect(try store.auditEntries(before: nil, with: "%", limit: 9).isEmpty)
    }

    private func entry(_ subject: String) -> AuditEntry {
        AuditEntry(at: clock.source.now(), actor: "command line", action: "container.create", subject: subject)
    }

    /// If the disk is full between the two, a token would exist that was never shown.
    @Test func aChangeAndItsAuditEntryShareACommit() throws {
        let first = try #require(ContainerID("iCloud.org.example.first"))
        let second = try #require(ContainerID("iCloud.org.example.second"))
        try store.withAuditEntry(entry("first")) { try store.addContainer(first) }
        #expect(throws: DirectoryError.self) {
            try store.withAuditEntry(entry("again")) { try store.addContainer(first) }
        }
        try store.withAuditEntry(entry("nothing")) {}
        #expect(try store.auditEntries(limit: 9).map(\.subject) == ["nothing", "first"])

        try store.writer.write { try $0.execute(sql: "ALTER TABLE audit RENAME TO lost") }
        #expect(throws: DirectoryError.self) {
            try store.withAuditEntry(entry("second")) { try store.addContainer(second) }
        }
        #expect(try store.containers().map(\.container) == [first])
        // A later write does not commit it either.
        try store.addContainer(second)
        #expect(try store.containers().map(\.container) == [first, second])
    }
}
