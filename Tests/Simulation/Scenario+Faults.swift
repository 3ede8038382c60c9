package import Records

extension Scenario {
    /// Whether a run of these steps may come to where a planted mistake takes hold.
    ///
    /// What needs a disk that is full, or two who change the same batch, most runs never meet, and to make them all the
    /// same took minutes.
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
