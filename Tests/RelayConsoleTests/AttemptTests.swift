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

    @Test func theOldestDownloadTicketMakesRoom() {
        let tickets = DownloadTickets()
        let issued = (0..<65).map {
            tickets.issue(for: "backup-\($0)", to: "session", at: Timestamp(milliseconds: Int64($0)))
        }
        let taken = issued.map { tickets.take($0, from: "session", at: Timestamp(milliseconds: 100)) }
        #expect(taken == [nil] + (1..<65).map { "backup-\($0)" })
    }
}
