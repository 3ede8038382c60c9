import ZoneKit
import ZoneMirror
import ZoneTesting

/// An application on one device: its user's edits, its end and its restart.
protocol Program: AnyObject, Sendable {
    var device: TestDevice { get }
    /// Changes a field as the user.
    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String)
    func delete(_ zone: Int, _ record: String)
    /// Continues with the stored data after a restart of the device.
    func begin(on device: TestDevice)
    /// Retries changes that were rejected for a reason that no longer exists.
    func retry()
    /// Copies the state kept outside the device's files. `putStateBack()` restores it, and requires an earlier copy.
    func keepState()
    func putStateBack()
    /// The program's local content by zone and record; `nil` if it cannot be read.
    func holdings() -> [ZoneName: [String: [String: String]]]?
    /// The content that the program must have.
    func expected(from truth: Truth) -> [ZoneName: [String: Version]]
    /// Closes open files after a crash, as the operating system would.
    func letGo()
    /// Changes that the program has still to send.
    func unsent() -> [String]
}

extension Program {
    // All state is in files by default.
    func keepState() {}
    // No files are open by default.
    func letGo() {}
    func putStateBack() {}
}

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
