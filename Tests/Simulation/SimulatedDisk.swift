import DiskTrials
import Foundation
import Synchronization
import ZoneTesting

/// The disk beneath the simulated relay: it fails when a step says so, and what it has not flushed a power cut takes.
final class SimulatedDisk: Sendable {
    /// What goes wrong with which operation from now on.
    struct Fault: Hashable, Sendable {
        enum Kind: CaseIterable {
            /// One write, or flush, fails.
            case fails
            /// There is no room any more, until it is mended.
            case isFull
            case losesPower
        }

        var kind: Kind
        var number: Int

        init(number: Int, _ random: inout some RandomNumberGenerator) {
            self.number = number
            kind = Kind.allCases.randomElement(using: &random) ?? .fails
        }
    }

    private struct State {
        var disk: FaultyDisk
        var folder: URL
        var lives = 1
        var fault: Fault?

        var hasLostPower: Bool { fault?.kind == .losesPower && disk.hasStruck }
    }

    private let home: URL
    private let state: Mutex<State>

    init(in home: URL) throws {
        self.home = home
        let folder = home.appendingPathComponent("1")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        state = Mutex(State(disk: FaultyDisk(folder: folder.path), folder: folder))
    }

    deinit { state.withLock { $0.disk.detach() } }

    /// For the relay's next start.
    var relayDisk: RelayDisk {
        RelayDisk { [self] in state.withLock { ($0.folder.path, $0.disk.calls) } }
    }

    /// Whether no fault is to be expected, nor was met since the last one was mended.
    var isHealthy: Bool { state.withLock { $0.fault == nil } }

    /// Whether nothing works any more before the next start, on what was flushed.
    var hasLostPower: Bool { state.withLock { $0.hasLostPower } }

    func arm(_ fault: Fault) {
        state.withLock { state in
            guard !state.hasLostPower else { return }
            state.fault = fault
            let effect: FaultyDisk.Fault.Effect =
                switch fault.kind {
                case .fails: .fails
                case .isFull: .isFull
                case .losesPower: .losesPower
                }
            state.disk.arm(FaultyDisk.Fault(number: fault.number, effect, lasts: fault.kind == .isFull))
        }
    }

    func heal() {
        state.withLock { state in
            // What has lost its power is taken care of by the next start.
            if state.hasLostPower { return }
            state.fault = nil
            state.disk.heal()
        }
    }

    /// After the relay's end: where the power was lost, the next one finds what was flushed; else what was written.
    func cutPowerIfLost() throws {
        try state.withLock { state in
            guard state.hasLostPower else {
                if state.fault?.kind == .fails { (state.fault, _) = (nil, state.disk.heal()) }
                return
            }
            state.lives += 1
            let next = home.appendingPathComponent("\(state.lives)")
            try FileManager.default.createDirectory(at: next, withIntermediateDirectories: true)
            try state.disk.cutPower(.keepsSome(seed: UInt64(state.lives)), leaving: next.path)
            state.disk.detach()
            state.fault = nil
            state.folder = next
            state.disk = FaultyDisk(folder: next.path)
        }
    }
}
