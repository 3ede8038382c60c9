import Records
import SyncCore

/// Virtual time, a network that loses, delays, reorders and duplicates messages, and a queue of all events in order.
final class ModelWorld {
    private(set) var now = Instant.start
    var random: SeededRandom
    var relay = ModelRelay()
    var clients: [ModelClient] = []
    /// The probability of each fault; zero for the quiet phase.
    var faults = 0.2
    private(set) var trace: [String] = []
    private var queue: [(at: Instant, order: Int, job: () -> Void)] = []
    private var order = 0

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }

    func note(_ text: @autoclosure () -> String) {
        if trace.count > 400 { trace.removeFirst(200) }
        trace.append("\(now.sinceStart) \(text())")
    }

    func after(_ delay: Duration, _ job: @escaping () -> Void) {
        order += 1
        queue.append((now + delay, order, job))
    }

    /// Runs the jobs that are due until `end`.
    func run(until end: Instant) {
        while let next = queue.indices.min(by: { (queue[$0].at, queue[$0].order) < (queue[$1].at, queue[$1].order) }),
            queue[next].at <= end
        {
            let due = queue.remove(at: next)
            now = max(now, due.at)
            due.job()
        }
        now = max(now, end)
    }

    private var latency: Duration { .milliseconds(Int64.random(in: 1...400, using: &random)) }

    /// Sends a request that may be lost in either direction; in both cases the caller gets a network error after a
    /// while.
    func request<Answer>(
        _ name: String,
        perform: @escaping (ModelWorld) throws(SyncFailure) -> Answer,
        answer: @escaping (Result<Answer, SyncFailure>) -> Void
    ) {
        let isLostThere = chance(faults / 2)
        let isLostBack = chance(faults / 2)
        if isLostThere {
            after(.seconds(2)) { answer(.failure(SyncFailure(.network))) }
            return
        }
        after(latency) { [self] in
            let result = Result(catching: { () throws(SyncFailure) in try perform(self) })
            note("relay did \(name)\(isLostBack ? ", answer lost" : "")")
            after(isLostBack ? .seconds(2) : latency) {
                answer(isLostBack ? .failure(SyncFailure(.network)) : result)
            }
        }
    }

    /// Sends notices to all clients but the writer; a notice may be lost, duplicated or reordered.
    func notify(_ zones: Set<ZoneID>, except writer: ModelClient) {
        for client in clients where client !== writer {
            for zone in zones.sorted(by: { $0.zoneName < $1.zoneName }) {
                let copies = chance(faults) ? 0 : chance(faults) ? 2 : 1
                let token = relay.token(of: zone)
                for _ in 0..<copies {
                    after(latency) { client.noticeArrived(zone, token) }
                }
            }
        }
    }
}
