import DiskTrials
import Foundation
import Synchronization
import ZoneTesting

/// The disk of the simulated relay: it fails when a step requests it, and a power cut loses data that was not flushed.
final class SimulatedDisk: Sendable {
    /// A fault of the nth disk operation from now on.
    struct Fault: Hashable, Sendable {
        enum Kind: CaseIterable {
            /// One write or flush fails.
            case fails
            /// The disk is full until `heal()` is called.
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

    /// The disk for the relay's next start.
    var relayDisk: RelayDisk {
        RelayDisk { [self] in state.withLock { ($0.folder.path, $0.disk.calls) } }
    }

    /// Whether no fault is armed and none has occurred since the last `heal()`.
    var isHealthy: Bool { state.withLock { $0.fault == nil } }

    /// Whether the power is lost; the relay must restart from the flushed data.
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
            // The next start handles a power loss.
            if state.hasLostPower { return }
            state.fault = nil
            state.disk.heal()
        }
    }

    /// Prepares the files for the relay's next start: after a power loss only flushed data, otherwise all data written.
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
