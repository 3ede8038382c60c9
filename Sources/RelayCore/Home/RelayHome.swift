package import Records

/// Where a relay keeps its data: a data folder, or a cluster of databases.
///
/// Gives `serve`, the console, the doctor and the commands everything that they need of it, so that none of them knows
/// which store it works on. A value: nothing is open until one of its functions opens it.
package protocol RelayHome: Sendable {
    /// Opens the accounts, creating what is missing.
    ///
    /// A running relay passes `onLostWrite`, which is called once if the disk fails to keep a change. No other change
    /// is accepted then, and the process should exit and start again.
    func accounts(onLostWrite: (@Sendable () -> Void)?) throws(DirectoryError) -> any AccountDirectory

    /// Returns the stores of all containers for a running relay; opens none.
    func stores(_ options: StoreOptions) -> any ServedStores

    /// Returns a container's schemas; the container must exist.
    func schemas(of container: ContainerID) -> any ContainerSchemas

    /// Makes the link to the other relays that serve these stores.
    ///
    /// - Parameters:
    ///   - node: the name of this relay among them.
    ///   - run: a number that no earlier run of it had.
    ///   - log: called when the link breaks and when it works again.
    /// - Returns: `nil` if one relay at a time serves these stores.
    func link(of node: String, run: UInt64, log: @escaping @Sendable (String) -> Void) -> (any NodeLink)?

    var upkeep: any StorageUpkeep { get }

    var backups: any Backups { get }

    /// Which of several relays on the same data does the scheduled work.
    var duty: any ScheduledDuty { get }

    /// The databases of a cluster; `nil` if there is one place for all data.
    var shards: (any ClusterShards)? { get }

    /// Reads the operators' settings for alerts, which are empty if there are none.
    ///
    /// - Throws: `BackupFailure.unreadable` if they are damaged: a caller that took them for empty and saved that would
    ///   delete the operators' limits.
    func alertOverrides() throws(BackupFailure) -> AlertOverrides

    func setAlertOverrides(_ overrides: AlertOverrides) throws(BackupFailure)

    /// The alerts that all relays on this data have sent; `nil` if one relay at a time serves it.
    var alertIncidents: (any AlertIncidents)? { get }
}

extension RelayHome {
    package func link(of node: String, run: UInt64, log: @escaping @Sendable (String) -> Void) -> (any NodeLink)? {
        nil
    }

    package var duty: any ScheduledDuty { SoleDuty() }

    package var shards: (any ClusterShards)? { nil }

    package var alertIncidents: (any AlertIncidents)? { nil }

    /// Opens the accounts for a command.
    package func accounts() throws(DirectoryError) -> any AccountDirectory { try accounts(onLostWrite: nil) }
}

/// How a running relay opens its stores.
package struct StoreOptions: Sendable {
    /// Returns 64 random bits.
    package var draw: @Sendable () -> UInt64
    /// The thresholds and time limits for queries.
    package var tuning = QueryTuning()
    /// The maximum number of open stores; exceeded only while more are in use.
    package var mostOpen = Int.max
    package var events = StoreEvents()

    package init(draw: @escaping @Sendable () -> UInt64) { self.draw = draw }
}
