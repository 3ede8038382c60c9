import ZoneKit
import ZoneMirror
import ZoneTesting

/// A program whose user can erase the relay's data or lose the encryption key.
protocol ErasingProgram: Program {
    func erase()
    func resetKeys()
}

extension TestDevice {
    /// Erases the application's data on this device and on the relay.
    func erase(_ container: MirroredContainer?, _ judge: Judge) {
        onPrivateStore(of: container, judge, "erased") { try await $0.eraseAllData(in: $1) }
    }

    /// Recreates the relay's data from the devices' copies.
    func resetKeys(_ container: MirroredContainer?, _ judge: Judge) {
        onPrivateStore(of: container, judge, "reset") { try await $0.resetEncryptedData(in: $1) }
    }

    /// Deletes the zone directly, without the mirror's involvement, as another program of the user would.
    func deleteMirroredZone(_ judge: Judge) {
        Task(executorPreference: party) { [self] in
            let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
            let done = try? await privateDatabase.deleteRecordZone(withID: zone)
            judge.note("zone \(done == nil ? "not " : "")deleted")
        }
    }

    private func onPrivateStore(
        of container: MirroredContainer?,
        _ judge: Judge,
        _ what: String,
        _ work: @escaping @Sendable (MirroredContainer, StoreID) async throws -> Void
    ) {
        guard let container, let place = container.descriptions.first?.url else { return }
        Task(executorPreference: party) {
            do {
                try await work(container, container.store(at: place))
                judge.note(what)
            } catch {
                judge.note("not \(what): \(error)")
            }
        }
    }
}
