import Foundation
package import RelayAPI
package import RelayCore
import Synchronization
import ZoneKit

/// What the relay and devices of one test share: the clock, the random source and the executor.
package final class World: Sendable {
    private struct Member {
        weak var one: (any PendingWorkReporting)?
        var process: SimulatedProcess
        var device: String
        /// Whether the device is connected; nothing waits for a disconnected device.
        var isReachable: @Sendable () -> Bool
    }

    private struct State {
        var members: [Member] = []
        var news: UInt64 = 0
        var publicNews: UInt64 = 0
        /// The number of items that the networks carry at present, by device.
        var inFlight: [ObjectIdentifier: (process: SimulatedProcess, count: Int)] = [:]
        var requests: UInt64 = 0
    }

    package let clock: TestClock
    package let random: SeededRandom
    package let executor: DeterministicExecutor
    /// Observes the messages between the relay and devices; `nil` for none.
    package let observer: (any RelayObserver)?
    private let state = Mutex(State())

    package init(
        clock: TestClock,
        seed: UInt64,
        executor: DeterministicExecutor = DeterministicExecutor(),
        observer: (any RelayObserver)? = nil
    ) {
        self.observer = observer
        self.clock = clock
        self.executor = executor
        random = SeededRandom(seed: seed)
    }

    func join(
        _ one: any PendingWorkReporting,
        of process: SimulatedProcess,
        device: String,
        isReachable: @escaping @Sendable () -> Bool
    ) {
        state.withLock { state in
            state.members.removeAll { $0.one == nil || $0.process.hasEnded }
            state.members.append(Member(one: one, process: process, device: device, isReachable: isReachable))
        }
    }

    func changeCount(inPublic isPublic: Bool) -> UInt64 { state.withLock { isPublic ? $0.publicNews : $0.news } }

    /// Returns the next request number, which continues across restarts of the relay.
    func nextRequest() -> UInt64 {
        state.withLock { state in
            state.requests += 1
            return state.requests
        }
    }

    /// Records a write.
    func written(toPublic isPublic: Bool) {
        state.withLock { state in
            if isPublic { state.publicNews += 1 } else { state.news += 1 }
        }
    }

    /// Records that the network has started to carry something, or has delivered it.
    func inFlightChanged(_ change: Int, for process: SimulatedProcess) {
        state.withLock { $0.inFlight[ObjectIdentifier(process), default: (process, 0)].count += change }
    }

    /// Returns what is still to be done by all connected devices.
    package func pendingWork() async -> [String] {
        let (members, inFlight) = state.withLock { state in
            state.inFlight = state.inFlight.filter { $0.value.count > 0 && !$0.value.process.hasEnded }
            return (state.members, state.inFlight.values.reduce(0) { $0 + $1.count })
        }
        var all: [String] = inFlight > 0 ? ["\(inFlight) requests or notices are on their way."] : []
        for member in members where !member.process.hasEnded && member.isReachable() {
            all += await member.one?.pendingWork().map { "\(member.device): \($0)" } ?? []
        }
        return all
    }

    /// Moves the clock, and lets everything that is due on the way happen at its time.
    func advance(by duration: Duration) async {
        let end = clock.now.advanced(by: max(.zero, duration))
        await executor.idle()
        while let next = clock.nextDeadline, next <= end {
            clock.advance(by: clock.now.duration(to: next))
            await executor.idle()
        }
        clock.advance(by: clock.now.duration(to: end))
        await executor.idle()
    }

    /// Moves the clock from one deadline to the next until there is nothing left to do.
    func settle(within limit: Duration) async throws(NotSettled) {
        let start = clock.now
        let end = start.advanced(by: limit)
        var patience = 1_000
        while true {
            await executor.idle()
            let count = executor.count
            let pending = await pendingWork()
            await executor.idle()
            // Work that was pending may be done by now, without moving the clock.
            guard executor.count == count else { continue }
            if pending.isEmpty { return }
            guard let next = clock.nextDeadline, next <= end else {
                // A thread that has just finished with a member may be about to add its next item to the stage.
                if patience > 0 {
                    patience -= 1
                    await Task.yield()
                    continue
                }
                throw NotSettled(pending: pending, waited: start.duration(to: clock.now), limit: limit)
            }
            clock.advance(by: clock.now.duration(to: next))
        }
    }
}

/// The world as seen by one device, in one of its runs.
struct DeviceEnvironment: TestEnvironment {
    let world: World
    let process: SimulatedProcess
    let device: String
    let isReachable: @Sendable () -> Bool

    var tasks: any TaskExecutor { process }

    func join(_ one: any PendingWorkReporting) {
        world.join(one, of: process, device: device, isReachable: isReachable)
    }

    func application(isRunning: Bool) { world.executor.application(isRunning: isRunning) }

    func changeCount(inPublic: Bool) -> UInt64 { world.changeCount(inPublic: inPublic) }
}

/// Thrown by `TestRelay.settle(within:)` if there is still something to do.
public struct NotSettled: Error, CustomStringConvertible, Sendable {
    /// The pending work: one sentence each, which begins with the device.
    public let pending: [String]
    /// How far the clock was moved.
    public let waited: Duration
    let limit: Duration

    /// All of it as text.
    public var description: String {
        "After \(waited) of the relay's clock (limit: \(limit)) there is still something to do:\n"
            + pending.map { "- \($0)" }.joined(separator: "\n")
    }
}

/// Observes everything that passes between a test's relay and its devices, at the relay's end.
///
/// Called in the middle of the world's work, on any thread. Must not block or call the relay.
package protocol RelayObserver: Sendable {
    /// The relay has opened this store in a new run.
    func opened(_ store: any Store)
    /// A commit is on disk, but its writes are not answered and its notices not sent yet.
    ///
    /// Not called for commits that are not reported; `wrote` is.
    func committed(_ commit: Commit, in store: any Store)
    /// The queued writes are executed or refused, but not answered yet.
    func wrote(in store: any Store)
    /// A request has reached the relay.
    func asked(_ request: APIRequest, number: UInt64)
    /// The relay has responded to a request.
    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse)
    /// The relay has sent a frame on a device's notice socket.
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier)
    /// A device's notice socket has been closed by the relay or by the network.
    func ended(socket: ObjectIdentifier, device: String)
}
