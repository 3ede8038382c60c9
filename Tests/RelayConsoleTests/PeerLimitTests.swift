import Dispatch
import Testing

@testable import RelayConsole
@testable import RelayServer

/// Limits that count by address: whoever has one IPv6 address has all of its network.
@Suite(.timeLimit(.minutes(5))) struct PeerLimitTests {
    @Test func connectionsOfOneNetworkAreCountedTogether() {
        var limits = ServerLimits()
        limits.connectionsPerAddress = 2
        let counts = ConnectionCounts(limits: limits, trustedProxies: [])
        #expect(counts.joined("2001:db8::1") == .welcome)
        #expect(counts.joined("2001:db8::2") == .welcome)
        #expect(counts.joined("2001:db8::3") == .tooMany)
        #expect(counts.joined("2001:db8:0:1::1") == .welcome, "another network")
        #expect(counts.joined("192.0.2.1") == .welcome)
        // Which of them leaves does not matter.
        counts.left("2001:db8::3")
        counts.left("2001:db8::2")
        #expect(counts.joined("2001:db8::4") == .welcome)
    }

    @Test func guessesFromOneNetworkAreCountedTogether() {
        let guardian = ConsoleGuard(uptime: { .zero })
        for host in 1...10 {
            #expect(throws: Never.self) { try guardian.charge(from: "2001:db8::\(host)") }
        }
        #expect(throws: ConsoleRefusal.self) { try guardian.charge(from: "2001:db8::beef") }
        #expect(throws: Never.self) { try guardian.charge(from: "2001:db8:0:1::1") }
    }

    @Test func theLineBeforeTheDeskHasABound() async {
        let guardian = ConsoleGuard(uptime: { .zero })
        let door = DispatchSemaphore(value: 0)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0...ConsoleGuard.longestLine {
                group.addTask {
                    do {
                        try await guardian.inTurn {
                            door.wait()
                            door.signal()
                        }
                        return true
                    } catch {
                        return false
                    }
                }
            }
            // The first to be answered while nobody is let in.
            #expect(await group.next() == false)
            door.signal()
            for await isServed in group { #expect(isServed) }
        }
    }
}
