import ZoneKit
import ZoneMirror
import ZoneTesting

/// A program whose user may throw away what the relay has, or lose the key to it.
protocol ErasingProgram: Program {
    func erase()
    func resetKeys()
}

extension TestDevice {
    /// The user erases the application's data, here and everywhere.
    func erase(_ container: MirroredContainer?, _ judge: Judge) {
        onPrivateStore(of: container, judge, "erased") { try await $0.eraseAllData(in: $1) }
    }

    /// All that is on the relay is made anew from what devices hold.
    func resetKeys(_ container: MirroredContainer?, _ judge: Judge) {
        onPrivateStore(of: container, judge, "reset") { try await $0.resetEncryptedData(in: $1) }
    }

    /// Another program of the user's deletes the zone, behind the mirror's back.
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
