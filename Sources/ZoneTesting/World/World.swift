import Foundation
package import RelayAPI
package import RelayCore
package import RelayStore
import Synchronization
import ZoneKit

/// What the relay and devices of one test share: the clock, the random source and the executor.
package final class World: Sendable {
    private struct Member {
        weak var one: (any Settling)?
        var party: Party
        var device: String
        /// Whether the device is connected; nothing waits for a disconnected device.
        var isReachable: @Sendable () -> Bool
    }

    private struct State {
        var members: [Member] = []
        var news: UInt64 = 0
        var publicNews: UInt64 = 0
        /// The number of items that the networks carry at present, by device.
        var underWay: [ObjectIdentifier: (party: Party, count: Int)] = [:]
        var requests: UInt64 = 0
    }

    package let clock: TestClock
    package let random: SeededRandom
    package let stage: Stage
    /// Observes the messages between the relay and devices; `nil` for none.
    package let witness: (any Witness)?
    private let state = Mutex(State())

    package init(clock: TestClock, seed: UInt64, stage: Stage = Stage(), witness: (any Witness)? = nil) {
        self.witness = witness
        self.clock = clock
        self.stage = stage
        random = SeededRandom(seed: seed)
    }

    func join(_ one: any Settling, of party: Party, device: String, isReachable: @escaping @Sendable () -> Bool) {
        state.withLock { state in
            state.members.removeAll { $0.one == nil || $0.party.isGone }
            state.members.append(Member(one: one, party: party, device: device, isReachable: isReachable))
        }
    }

    func newsCount(ofPublic isPublic: Bool) -> UInt64 { state.withLock { isPublic ? $0.publicNews : $0.news } }

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
    func carries(_ change: Int, for party: Party) {
        state.withLock { $0.underWay[ObjectIdentifier(party), default: (party, 0)].count += change }
    }

    /// Returns what is still to be done by all connected devices.
    package func unsettled() async -> [String] {
        let (members, underWay) = state.withLock { state in
            state.underWay = state.underWay.filter { $0.value.count > 0 && !$0.value.party.isGone }
            return (state.members, state.underWay.values.reduce(0) { $0 + $1.count })
        }
        var all: [String] = underWay > 0 ? ["\(underWay) requests or notices are on their way."] : []
        for member in members where !member.party.isGone && member.isReachable() {
            all += await member.one?.unsettled().map { "\(member.device): \($0)" } ?? []
        }
        return all
    }

    /// Moves the clock, and lets everything that is due on the way happen at its time.
    func advance(by duration: Duration) async {
        let end = clock.now.advanced(by: max(.zero, duration))
        await stage.idle()
        while let next = clock.nextDeadline, next <= end {
            clock.advance(by: clock.now.duration(to: next))
            await stage.idle()
        }
        clock.advance(by: clock.now.duration(to: end))
        await stage.idle()
    }

    /// Moves the clock from one deadline to the next until there is nothing left to do.
    func settle(within limit: Duration) async throws(NotSettled) {
        let start = clock.now
        let end = start.advanced(by: limit)
        var patience = 1_000
        while true {
            await stage.idle()
            let count = stage.count
            let pending = await unsettled()
            await stage.idle()
            // Work that was pending may be done by now, without moving the clock.
            guard stage.count == count else { continue }
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
struct DeviceSurroundings: Surroundings {
    let world: World
    let party: Party
    let device: String
    let isReachable: @Sendable () -> Bool

    var tasks: any TaskExecutor { party }

    func join(_ one: any Settling) { world.join(one, of: party, device: device, isReachable: isReachable) }

    func application(isAtWork: Bool) { world.stage.application(isAtWork: isAtWork) }

    func newsCount(ofPublic: Bool) -> UInt64 { world.newsCount(ofPublic: ofPublic) }
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
package protocol Witness: Sendable {
    /// The relay has opened this store in a new run.
    func opened(_ store: SQLiteStore)
    /// A commit is on disk, but its writes are not answered and its notices not sent yet.
    ///
    /// Not called for commits that are not reported; `wrote` is.
    func committed(_ commit: Commit, in store: SQLiteStore)
    /// The queued writes are executed or refused, but not answered yet.
    func wrote(in store: SQLiteStore)
    /// A request has reached the relay.
    func asked(_ request: APIRequest, number: UInt64)
    /// The relay has responded to a request.
    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse)
    /// The relay has sent a frame on a device's notice socket.
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier)
    /// A device's notice socket has been closed by the relay or by the network.
    func ended(socket: ObjectIdentifier, device: String)
}
