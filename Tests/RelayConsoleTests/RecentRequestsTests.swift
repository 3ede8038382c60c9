import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayServer
import Testing

/// The requests that the console's log page polls for every two seconds.
@Suite struct RecentRequestsTests {
    @Test func aPageOfAnEarlierProcessGetsAllEntries() {
        let recent = RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: { Timestamp(milliseconds: 1) })
        let note = {
            recent.note(APIResponse(status: .notFound), to: APIRequest(method: .get, path: "/x"), in: .milliseconds(1))
        }
        let numbers = { (after: Int) in recent.look(after: after, limit: 10) { _ in true }.map(\.number) }
        #expect(numbers(0).isEmpty && numbers(500).isEmpty)
        for _ in 0..<3 { note() }
        #expect(numbers(0) == [3, 2, 1])
        #expect(numbers(2) == [3])
        #expect(numbers(3).isEmpty)
        // A client of an earlier process asks for entries after a number that this process has not reached.
        #expect(numbers(500) == [3, 2, 1])
    }
}
