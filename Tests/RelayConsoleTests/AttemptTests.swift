import Records
import RelayConsole
import RelayCore
import Testing

@Suite struct AttemptTests {
    /// A client with one IPv6 address usually has its whole network.
    @Test func failedAttemptsCountPerNetwork() throws {
        let attempts = AttemptCount(uptime: { .zero })
        for number in 1...20 {
            let address = "2001:db8::\(String(number, radix: 16))"
            try attempts.check(address)
            attempts.failed(address)
        }
        let refusal = #expect(throws: ConsoleRefusal.self) { try attempts.check("2001:db8::ff") }
        #expect(refusal?.status == 429)
        try attempts.check("2001:db8:0:1::1")
        try attempts.check("192.0.2.1")
    }

    /// As with a balancer that sends each attempt to another node.
    @Test func severalRelaysCountFailedAttemptsTogether() throws {
        let attempts = AttemptsInMemory(uptime: { .zero })
        let nodes = (0..<3).map { _ in ConsoleGuard(attempts: attempts) }
        for number in 0..<10 { try nodes[number % 3].charge(name: "ada", from: "192.0.2.1") }
        for node in nodes {
            #expect(throws: ConsoleRefusal.self) { try node.charge(name: "ada", from: "192.0.2.1") }
            try node.charge(name: "ada", from: "192.0.2.2")
        }
    }
}

/// Challenges and tickets, which are valid once on all relays together.
@Suite struct OneTimeSealTests {
    private static let now = Timestamp(milliseconds: 1_800_000_000_000)
    private static let key = [UInt8](repeating: 7, count: 32)

    /// Two relays on the same accounts.
    private let nodes: [OneTimeSeal]

    init() {
        let attempts = AttemptsInMemory(uptime: { .zero })
        nodes = (0..<2).map { _ in OneTimeSeal("tickets", relayKey: Self.key, life: .seconds(60), uses: attempts) }
    }

    @Test func aTicketOfOneRelayIsAcceptedOnceByTheOthers() {
        let ticket = nodes[0].issue(Array("backup".utf8), to: "session", at: Self.now)
        #expect(nodes[1].take(ticket, from: "session", at: Self.now) == Array("backup".utf8))
        for node in nodes { #expect(node.take(ticket, from: "session", at: Self.now) == nil) }
    }

    @Test func aTicketIsForItsHolderOnly() {
        let ticket = nodes[0].issue(Array("backup".utf8), to: "session", at: Self.now)
        #expect(nodes[1].take(ticket, from: "another", at: Self.now) == nil)
        #expect(nodes[1].take(ticket, from: "session", at: Self.now) != nil, "the failed attempt has not used it")
    }

    @Test func aTicketExpires() {
        let ticket = nodes[0].issue(at: Self.now)
        #expect(nodes[0].take(ticket, at: Self.now + .seconds(60)) == nil)
        #expect(nodes[0].take(ticket, at: Self.now + .seconds(59)) == [])
    }

    @Test func anInvalidTicketIsRefused() {
        let ticket = nodes[0].issue(Array("backup".utf8), at: Self.now)
        for place in ticket.indices {
            var changed = ticket
            changed[place] ^= 1
            #expect(nodes[0].take(changed, at: Self.now) == nil)
        }
        for length in [0, 24, 55, ticket.count - 1] {
            #expect(nodes[0].take(Array(ticket.prefix(length)), at: Self.now) == nil)
        }
        let other = OneTimeSeal(
            "challenges",
            relayKey: Self.key,
            life: .seconds(60),
            uses: AttemptsInMemory(uptime: { .zero })
        )
        #expect(other.take(ticket, at: Self.now) == nil, "it is for another purpose")
    }

    @Test func aTicketIsRefusedWhileItIsUnknownWhetherItWasUsed() {
        struct Unreachable: Attempts {
            func take(_ key: String, of limit: RateLimit) throws(DirectoryError) -> Duration? { throw .unavailable("") }
            func giveBack(_ key: String, of limit: RateLimit) throws(DirectoryError) { throw .unavailable("") }
            func isFirstUse(of value: String, within lifetime: Duration) throws(DirectoryError) -> Bool {
                throw .unavailable("")
            }
            func removeExpired() throws(DirectoryError) { throw .unavailable("") }
        }
        let seal = OneTimeSeal("tickets", relayKey: Self.key, life: .seconds(60), uses: Unreachable())
        #expect(seal.take(seal.issue(at: Self.now), at: Self.now) == nil)
    }
}
