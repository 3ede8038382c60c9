import Dispatch
import Testing

@testable import RelayConsole
@testable import RelayServer

/// Limits by address count an IPv6 network as one address, because a client controls all of its network.
@Suite(.timeLimit(.minutes(5))) struct PeerLimitTests {
    @Test func connectionsFromOneNetworkAreCountedTogether() {
        var limits = ServerLimits()
        limits.connectionsPerAddress = 2
        let counts = ConnectionCounts(limits: limits, trustedProxies: [])
        #expect(counts.joined("2001:db8::1") == .welcome)
        #expect(counts.joined("2001:db8::2") == .welcome)
        #expect(counts.joined("2001:db8::3") == .tooMany)
        #expect(counts.joined("2001:db8:0:1::1") == .welcome, "another network")
        #expect(counts.joined("192.0.2.1") == .welcome)
        // Any of the connections may close.
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

    @Test func theNumberOfWaitingSignInsIsLimited() async {
        let guardian = ConsoleGuard(uptime: { .zero })
        let blocker = DispatchSemaphore(value: 0)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0...ConsoleGuard.longestLine {
                group.addTask {
                    do {
                        try await guardian.inTurn {
                            blocker.wait()
                            blocker.signal()
                        }
                        return true
                    } catch {
                        return false
                    }
                }
            }
            // The first result comes while the running request is blocked.
            #expect(await group.next() == false)
            blocker.signal()
            for await isServed in group { #expect(isServed) }
        }
    }
}
