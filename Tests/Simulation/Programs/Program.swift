import ZoneTesting

/// An application on one device: its users' deeds, its end and its next beginning.
protocol Program: AnyObject, Sendable {
    var device: TestDevice { get }
    /// The user changes a field.
    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String)
    func delete(_ zone: Int, _ record: String)
    /// The device has been restarted: the program goes on with what it has stored.
    func begin(on device: TestDevice)
    /// Tries again what was refused for a reason that is over.
    func retry()
    /// Copies what it keeps beside its device's files, and goes back to that; such a copy has been made before.
    func keepState()
    func putStateBack()
    /// What the program holds, by zone and record; `nil` where it cannot be read.
    func holdings() -> [ZoneName: [String: [String: String]]]?
    /// What it has to hold.
    func expected(from truth: Truth) -> [ZoneName: [String: Version]]
    /// The program has ended where it stood: what it had open is closed, as by the system.
    func letGo()
    /// What it would still send.
    func unsent() -> [String]
}

extension Program {
    // All that there is is in files.
    func keepState() {}
    // Nothing is open.
    func letGo() {}
    func putStateBack() {}
}
