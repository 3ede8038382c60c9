import Foundation
import Synchronization
import ZoneKit

/// What relay and devices of one test share: clock, chance, and the stage on which they act.
package final class World: Sendable {
    private struct Member {
        weak var one: (any Settling)?
        var party: Party
        var device: String
        /// Whether its device is on the network; nobody waits for one that is not.
        var isReachable: @Sendable () -> Bool
    }

    private struct State {
        var members: [Member] = []
        var news: UInt64 = 0
        var publicNews: UInt64 = 0
        /// What the networks carry just now, by device.
        var underWay: [ObjectIdentifier: (party: Party, count: Int)] = [:]
        var requests: UInt64 = 0
    }

    package let clock: TestClock
    package let random: SeededRandom
    package let stage: Stage
    /// Sees what relay and devices say to each other; `nil`: nobody looks.
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

    /// Numbers requests through all lives of the relay.
    func nextRequest() -> UInt64 {
        state.withLock { state in
            state.requests += 1
            return state.requests
        }
    }

    /// Something was written.
    func written(toPublic isPublic: Bool) {
        state.withLock { state in
            if isPublic { state.publicNews += 1 } else { state.news += 1 }
        }
    }

    /// The network begins to carry something, or has handed it over.
    func carries(_ change: Int, for party: Party) {
        state.withLock { $0.underWay[ObjectIdentifier(party), default: (party, 0)].count += change }
    }

    /// What is still to be done, by everybody who is on the network.
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

    /// Moves the clock so far, and lets everything happen in between when its time comes.
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

    /// Moves the clock from one deadline to the next until nobody has anything left to do.
    func settle(within limit: Duration) async throws(NotSettled) {
        let start = clock.now
        let end = start.advanced(by: limit)
        var patience = 1_000
        while true {
            await stage.idle()
            let count = stage.count
            let pending = await unsettled()
            await stage.idle()
            // What was pending while others were still at work may be done by now: no reason to move the clock.
            guard stage.count == count else { continue }
            if pending.isEmpty { return }
            guard let next = clock.nextDeadline, next <= end else {
                // A thread that has just let go of one of them may be about to bring its next piece of work to the stage.
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

/// The world as one device sees it, in one of its lives.
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

/// Thrown by `TestRelay.settle(within:)`: somebody still has something to do.
public struct NotSettled: Error, CustomStringConvertible, Sendable {
    /// What is still to be done, one sentence each, beginning with the device.
    public let pending: [String]
    /// How far the clock was moved.
    public let waited: Duration
    let limit: Duration

    /// All of it in words.
    public var description: String {
        "After \(waited) of the relay's clock (of \(limit) at the most) there is still something to do:\n"
            + pending.map { "- \($0)" }.joined(separator: "\n")
    }
}
