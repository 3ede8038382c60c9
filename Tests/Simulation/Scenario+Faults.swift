package import Records

extension Scenario {
    /// Returns whether a run of these steps can trigger a planted fault.
    ///
    /// Some faults need a full disk or two writers of the same batch, which most runs do not have. Running all of them
    /// anyway took minutes.
    package func canMeet(_ fault: PlantedFault, in steps: [Step]) -> Bool {
        switch fault {
        case .fullDiskStops: hasFaultyDisk && steps.contains { $0.deed.fillsDisk }
        case .numberReused: steps.contains { $0.deed.stopsRelay }
        case .atomicBatchTorn: steps.count { $0.deed.isGroup } > 1
        case .epochOutlivesRestore: steps.contains { $0.deed == .goBack }
        case .readerWrites: steps.contains { $0.deed == .restrict(isReadOnly: true) }
        case .linkLetsInTwo: steps.contains { $0.deed.isLinkForTwo }
        default: true
        }
    }
}

extension Step.Deed {
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
