package import Records
import ZoneTesting

/// The settings of a run, derived from its seed: everything except the steps.
package struct Scenario: Sendable, CustomStringConvertible {
    package var seed: UInt64
    var kind: Kind
    /// Whether the relay stores its records in files, and is restarted and killed.
    var isOnDisk: Bool
    /// Whether carol's and dave's devices, which use mirrors, take part.
    var hasMirrors: Bool
    /// Whether some of these mirror the public database, which is polled.
    var hasPublicMirrors: Bool
    /// Whether the relay's disk fails, fills up and loses power.
    var hasFaultyDisk: Bool
    /// Whether the relay is restored from a backup while its devices have later data.
    var restoresBackups: Bool
    /// The number of WAL pages that trigger a checkpoint.
    var checkpointPages: Int
    /// The maximum number of records in a request or response.
    var itemsPerRequest: Int
    var faultRates: NetworkFaultRates
    var stepCount: Int

    package enum Kind: Sendable {
        /// Engines, a plain client, and mirrors in some runs.
        case everything
        /// Mirrors of one user whose objects have every kind of link.
        case mirrors
    }

    package init(seed: UInt64, _ kind: Kind = .everything) {
        self.seed = seed
        self.kind = kind
        // XOR rather than a product: the generator advances by one, so a multiple would make neighboring seeds similar.
        var random = SeededRandom(seed: seed ^ 0x5CE2_A210_0000_0000).generator
        func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }
        isOnDisk = chance(0.45)
        hasMirrors = chance(0.25) && kind == .everything
        hasPublicMirrors = chance(0.4)
        hasFaultyDisk = chance(0.7)
        checkpointPages = [8, 40, 200, 8_000].randomElement(using: &random) ?? 8_000
        itemsPerRequest = [2, 3, 3, 5, 10, 200].randomElement(using: &random) ?? 200
        stepCount = Int.random(in: 14...46, using: &random)
        var faultRates = NetworkFaultRates()
        faultRates.delays = 1...(chance(0.5) ? 80 : 900)
        if chance(0.8) {
            faultRates.losesRequest = chance(0.5) ? 0.08 : 0
            faultRates.losesAnswer = chance(0.6) ? 0.1 : 0
            faultRates.doubles = chance(0.4) ? 0.08 : 0
            faultRates.throttles = chance(0.3) ? 0.05 : 0
            faultRates.isBusy = chance(0.3) ? 0.05 : 0
            faultRates.dropsNotice = chance(0.4) ? 0.3 : 0
            faultRates.doublesNotice = chance(0.4) ? 0.2 : 0
            faultRates.reordersNotice = chance(0.4) ? 0.3 : 0
        }
        self.faultRates = faultRates
        // Uses a generator of its own, so that the other settings of a seed do not change.
        var other = SeededRandom(seed: seed ^ 0xBAC_0B1D).generator
        restoresBackups = isOnDisk && Int.random(in: 0..<3, using: &other) == 0
        if restoresBackups {
            // The simulated disk does not support replaced files, and a mirror of the public database does not learn
            // which records are missing after a restore.
            (hasFaultyDisk, hasPublicMirrors) = (false, false)
        }
    }

    /// The number of engines, plain clients and mirrors.
    var programCount: Int { kind == .mirrors ? 3 : hasMirrors ? hasPublicMirrors ? 9 : 7 : 4 }

    private var cast: String { kind == .mirrors ? "linked mirrors" : hasMirrors ? "engines and mirrors" : "engines" }

    package var description: String {
        """
        seed \(seed): \(isOnDisk ? "files, log of \(checkpointPages) pages" : "memory"), \(cast), \
        \(itemsPerRequest) items a request, \(stepCount) steps
        weather: request lost \(faultRates.losesRequest), answer lost \(faultRates.losesAnswer), doubled \(faultRates.doubles), \
        throttled \(faultRates.throttles), busy \(faultRates.isBusy), notice dropped \(faultRates.dropsNotice), doubled \
        \(faultRates.doublesNotice), reordered \(faultRates.reordersNotice), delay \(faultRates.delays) ms
        """
    }
}

extension Scenario {
    /// Returns whether a run of these steps can trigger a planted fault.
    ///
    /// Some faults need a full disk or two writers of the same batch, which most runs do not have. Running all of them
    /// anyway took minutes.
    package func canTrigger(_ fault: PlantedFault, in steps: [Step]) -> Bool {
        switch fault {
        case .fullDiskStops: hasFaultyDisk && steps.contains { $0.action.fillsDisk }
        case .numberReused: steps.contains { $0.action.stopsRelay }
        case .atomicBatchTorn: steps.count { $0.action.isGroup } > 1
        case .epochOutlivesRestore: steps.contains { $0.action == .restoreBackup }
        case .readerWrites: steps.contains { $0.action == .restrict(isReadOnly: true) }
        case .linkLetsInTwo: steps.contains { $0.action.isLinkForTwo }
        default: true
        }
    }
}

extension Step.Action {
    fileprivate var fillsDisk: Bool {
        if case .breakDisk(let fault) = self { fault.kind == .isFull } else { false }
    }

    fileprivate var stopsRelay: Bool {
        switch self {
        case .restartRelay, .killRelay: true
        case .breakDisk(let fault): fault.kind == .losesPower
        default: false
        }
    }

    fileprivate var isGroup: Bool {
        if case .group = self { true } else { false }
    }

    fileprivate var isLinkForTwo: Bool {
        if case .link(.take(.some, .some)) = self { true } else { false }
    }
}
