import Records
import RelayCore
import StoreTesting
import Testing

/// Operators with their links, sessions and passkeys, and the audit log.
@Suite struct OperatorTests {
    private let clock = TestCalendar()
    private let store: any AccountDirectory

    init() throws { store = try TestStore.current.makeHome().accounts(time: clock.source) }

    private func enter(_ name: String = "ada") throws -> Operator {
        try store.useOperatorLink(try store.makeOperatorLink(), name: name, password: "correct horse")
    }

    @Test("a link expires after fifteen minutes") func links() throws {
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

    @Test("a link for a new operator cannot change an existing one") func newOperators() throws {
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
    @Test("the removal of an operator ends their links") func removal() throws {
        _ = try enter("ada")
        let code = try store.makeOperatorLink(for: "ada")
        try store.removeOperator("ada")
        #expect(try !store.operatorLink(code).isGood)
        #expect(throws: DirectoryError.missing("link with this code")) {
            try store.useOperatorLink(code, name: "ada", password: "correct horse")
        }
    }

    @Test("a new password by link ends the operator's other links") func passwordByLink() throws {
        _ = try enter("ada")
        let (lost, used) = (try store.makeOperatorLink(for: "ada"), try store.makeOperatorLink(for: "ada"))
        let newcomers = try store.makeOperatorLink()
        _ = try store.useOperatorLink(used, name: "ada", password: "battery staple")
        #expect(try !store.operatorLink(lost).isGood)
        #expect(try store.operatorLink(newcomers).isGood)
    }

    @Test("a session ends when it is idle, and after twelve hours") func sessions() throws {
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

    @Test("a new password ends the other sessions") func passwords() throws {
        let person = try enter()
        let (own, other) = (try store.startOperatorSession(person.id), try store.startOperatorSession(person.id))
        try store.setPassword("battery staple", ofOperator: person.id, keeping: own)
        #expect(try store.operatorSession(own, OperatorSessionRules()) != nil)
        #expect(try store.operatorSession(other, OperatorSessionRules()) == nil)
        #expect(try store.operator(name: "ada", password: "correct horse") == nil)
        #expect(try store.operator(name: "ada", password: "battery staple")?.id == person.id)
    }

    @Test("the audit log is read newest first") func auditLog() throws {
        for number in 1...5 {
            let now = clock.now
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
        AuditEntry(at: clock.now, actor: "command line", action: "container.create", subject: subject)
    }

    @Test("a change and its audit entry are written together, or neither is") func auditedChanges() throws {
        let container = ContainerEnvironment.test.container
        try store.withAuditEntry(entry("first")) { try store.addContainer(container) }
        #expect(throws: DirectoryError.self) {
            try store.withAuditEntry(entry("again")) { try store.addContainer(container) }
        }
        try store.withAuditEntry(entry("nothing")) {}
        #expect(try store.auditEntries(limit: 9).map(\.subject) == ["nothing", "first"])
    }

    @Test("operators are listed until they are removed") func operators() throws {
        let (ada, bob) = (try enter("Ada"), try enter("bob"))
        #expect(ada.name == "ada" && ada.user != bob.user && ada.created == clock.now)
        #expect(try Set(store.operators()) == [ada, bob])
        #expect(try store.operator(name: "ADA", password: "correct horse") == ada)
        #expect(try store.operator(name: "ada", password: "wrong horse") == nil)
        #expect(try store.operator(name: "eve", password: "correct horse") == nil)
        let session = try store.startOperatorSession(ada.id)
        try store.removeOperator("ada")
        #expect(try store.operators() == [bob] && store.operatorSession(session, OperatorSessionRules()) == nil)
        #expect(throws: DirectoryError.self) { try store.removeOperator("ada") }
    }

    @Test("a session ends when it is signed out") func signOut() throws {
        let person = try enter()
        let session = try store.startOperatorSession(person.id)
        #expect(try store.operatorSession(session, OperatorSessionRules()) == person)
        try store.endOperatorSession(session)
        #expect(try store.operatorSession(session, OperatorSessionRules()) == nil)
    }

    @Test("a passkey belongs to its operator, and keeps its last use") func passkeys() throws {
        let (ada, bob) = (try enter("ada"), try enter("bob"))
        let key = Passkey(
            id: [1, 0, 255],
            operatorID: ada.id,
            name: "phone",
            algorithm: -7,
            publicKey: [4, 0],
            host: "relay.example",
            signCount: 1,
            created: clock.now
        )
        try store.addPasskey(key)
        #expect(try store.passkeys(of: ada.id) == [key] && store.passkeys(of: bob.id).isEmpty)
        let found = try #require(try store.passkey(key.id))
        #expect(found.0 == key && found.1 == ada)
        #expect(try store.passkey([1]) == nil)
        clock.pass(.seconds(5))
        try store.usePasskey(key.id, signCount: 9)
        #expect(try store.passkeys(of: ada.id).map(\.signCount) == [9])
        #expect(try store.passkeys(of: ada.id).map(\.used) == [clock.now])
        #expect(throws: DirectoryError.self) { try store.removePasskey(key.id, ofOperator: bob.id) }
        try store.removePasskey(key.id, ofOperator: ada.id)
        #expect(try store.passkeys(of: ada.id).isEmpty)
        try store.addPasskey(key)
        try store.removeOperator("ada")
        #expect(try store.passkey(key.id) == nil)
    }
}
