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
