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
    /// Copies the state kept outside the device's files. `restoreState()` restores it, and requires an earlier copy.
    func saveState()
    func restoreState()
    /// The program's local content by zone and record; `nil` if it cannot be read.
    func localRecords() -> [ZoneName: [String: [String: String]]]?
    /// The content that the program must have.
    func expected(from snapshot: StoreSnapshot) -> [ZoneName: [String: Version]]
    /// Closes open files after a crash, as the operating system would.
    func releaseStores()
    /// Changes that the program has still to send.
    func unsent() -> [String]
}

extension Program {
    // All state is in files by default.
    func saveState() {}
    // No files are open by default.
    func releaseStores() {}
    func restoreState() {}
}

/// A program whose user can erase the relay's data or lose the encryption key.
protocol ErasingProgram: Program {
    func erase()
    func resetKeys()
}

extension TestDevice {
    /// Erases the application's data on this device and on the relay.
    func erase(_ container: MirroredContainer?, _ checker: Checker) {
        onPrivateStore(of: container, checker, "erased") { try await $0.eraseAllData(in: $1) }
    }

    /// Recreates the relay's data from the devices' copies.
    func resetKeys(_ container: MirroredContainer?, _ checker: Checker) {
        onPrivateStore(of: container, checker, "reset") { try await $0.resetEncryptedData(in: $1) }
    }

    /// Deletes the zone directly, without the mirror's involvement, as another program of the user would.
    func deleteMirroredZone(_ checker: Checker) {
        Task(executorPreference: process) { [self] in
            let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
            let done = try? await privateDatabase.deleteRecordZone(withID: zone)
            checker.note("zone \(done == nil ? "not " : "")deleted")
        }
    }

    private func onPrivateStore(
        of container: MirroredContainer?,
        _ checker: Checker,
        _ what: String,
        _ work: @escaping @Sendable (MirroredContainer, StoreID) async throws -> Void
    ) {
        guard let container, let place = container.descriptions.first?.url else { return }
        Task(executorPreference: process) {
            do {
                try await work(container, container.store(at: place))
                checker.note(what)
            } catch {
                checker.note("not \(what): \(error)")
            }
        }
    }
}
