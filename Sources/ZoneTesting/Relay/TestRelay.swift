public import Foundation
import HTTPTypes
import Records
package import RelayAPI
import RelayCore
package import RelaySystem
import Synchronization
public import ZoneKit

/// A complete relay inside a test: the server's own code, without sockets, with a clock that moves only when told to.
///
///     let relay = try TestRelay()
///     let phone = relay.device(of: "alice", named: "phone")
///     try await phone.container.privateCloudDatabase.save(CKRecord(recordType: "Note"))
///     try await relay.settle()
///
/// All rules are the real ones: permissions, limits, atomic zones, change tags, change feeds. Engines, mirrors and
/// pollers of its devices use its clock. Two relays with the same seed generate the same tokens, names and zone
/// identities.
public final class TestRelay: Sendable {
    /// Where the relay stores its records.
    public enum Storage: Sendable {
        /// In memory, until the test ends or the relay is restarted.
        case memory
        /// In files of a temporary folder, which is deleted with the relay and survives a restart.
        case temporaryFolder
    }

    /// The settings of a test relay.
    public struct Options: Sendable {
        /// Where records are stored.
        public var storage = Storage.memory
        /// The seed of the random number generator.
        public var seed: UInt64 = 1
        /// The date at which the clock starts.
        public var start = Date(timeIntervalSince1970: 1_700_000_000)
        /// Whether there are no rate limits on requests, as suits a clock that stands still.
        public var ignoresRateLimits = true
        /// The initial limits.
        public var limits = Limits()
        /// The number of pages of a store's log that are copied into its file at once, while commits continue.
        package var checkpointPages = 8_000

        /// Creates the default settings.
        public init() {}
    }

    /// The clock that the relay and its devices share.
    public let clock: TestClock
    /// The container of devices that name no other.
    public static let containerIdentifier = "iCloud.test"

    static let home = ContainerID(containerIdentifier).map { ContainerEnvironment($0, .development) }
    package let world: World
    /// The files of the relay and of its devices.
    package let folder: TestFolder
    let options: Options
    let disk: RelayDisk?
    private let clockWrong = ClockError()
    private let state: Mutex<State>
    private let networks = Mutex<[KnownNetwork]>([])

    private struct State {
        /// `nil` while the relay is stopped.
        var running: RunningRelay?
        var limits: Limits
    }

    /// Starts a relay.
    ///
    /// - Parameter options: the settings; by default in memory, with seed 1.
    /// - Throws: the error of SQLite or the file system if the store cannot be created.
    public convenience init(_ options: Options = Options()) throws {
        let world = World(clock: TestClock(start: options.start), seed: options.seed)
        try self.init(options, world: world, folder: TestFolder())
    }

    /// Creates a relay in a world that the caller runs.
    ///
    /// `disk`, if given, is what a relay with storage in files writes to.
    package init(_ options: Options, world: World, folder: TestFolder, disk: RelayDisk? = nil) throws {
        self.options = options
        self.disk = disk
        self.world = world
        self.folder = folder
        clock = world.clock
        if options.storage == .temporaryFolder { try folder.make() }
        let running = try RunningRelay(
            options,
            limits: options.limits,
            folder: folder,
            disk: disk,
            clockError: clockWrong,
            world: world
        )
        state = Mutex(State(running: running, limits: options.limits))
    }

    /// Ends the relay: drops what was in transit, and deletes the files of all its devices.
    deinit {
        state.withLock { $0.running?.stop() }
        clock.dropCalls()
        folder.remove()
    }

    /// Creates a device of a user, with an account, a name and a network of its own.
    ///
    /// - Parameters:
    ///   - user: any name; the user is created on first use.
    ///   - name: the name of the device; `device` by default.
    ///   - container: the container; `TestRelay.containerIdentifier` by default.
    ///   - encryptionKey: provides the user's key for encrypted values; by default they are sent to the relay
    ///     unencrypted.
    /// - Returns: a device that is online.
    public func device(
        of user: String,
        named name: String = "device",
        container: String = TestRelay.containerIdentifier,
        encryptionKey: (any EncryptionKeyProvider)? = nil
    ) -> TestDevice {
        TestDevice(
            relay: self,
            TestDevice.Identity(user: user, name: name, container: container, encryptionKey: encryptionKey)
        )
    }

    /// Creates a device without a signed-in user, which can only read the public database.
    ///
    /// - Parameter container: the container; `TestRelay.containerIdentifier` by default.
    /// - Returns: a device that is online.
    public func visitor(container: String = TestRelay.containerIdentifier) -> TestDevice {
        TestDevice(relay: self, TestDevice.Identity(user: nil, name: "visitor", container: container))
    }

    // MARK: Starting and stopping

    /// Stops the relay and starts it again on the same files; with storage in memory everything is lost.
    ///
    /// - Throws: the error of SQLite or the file system if the store cannot be opened.
    public func restart() throws {
        stop()
        try start()
    }

    /// Stops the relay gracefully: finishes queued writes, and closes open notice connections with a message.
    ///
    /// No device can reach it until `start()`.
    public func stop() { state.withLock { $0.running.take() }?.stop() }

    /// Ends the relay at once, like a crash of its process: writes in progress are not answered, and may or may not be
    /// stored.
    ///
    /// No device can reach it until `start()`.
    public func kill() {
        state.withLock { $0.running.take() }?.kill()
        networks.withLock { $0.compactMap(\.network) }.forEach { $0.dropSockets() }
    }

    /// Starts the relay on its files; does nothing if it is running.
    ///
    /// - Throws: the error of SQLite or the file system if the store cannot be opened.
    public func start() throws {
        try state.withLock { state in
            guard state.running == nil else { return }
            state.running = try RunningRelay(
                options,
                limits: state.limits,
                folder: folder,
                disk: disk,
                clockError: clockWrong,
                world: world
            )
        }
    }

    /// The error of the relay's clock, which does not affect the order of changes.
    ///
    /// Affects only what expires: sign-ins and links.
    public var clockError: Duration {
        get { clockWrong.value }
        set { clockWrong.value = newValue }
    }

    /// Whether the relay is running.
    public var isRunning: Bool { state.withLock { $0.running != nil } }

    /// The limits for requests and users; a change takes effect with the next request.
    public var limits: Limits {
        get { state.withLock { $0.limits } }
        set {
            state.withLock { state in
                state.limits = newValue
                state.running?.apply(newValue)
            }
        }
    }

    // MARK: Internals

    private struct KnownNetwork: Sendable { weak var network: TestNetwork? }

    /// Registers a network, weakly, so that a crash of the relay closes its connections.
    func join(_ network: TestNetwork) {
        networks.withLock { networks in
            networks.removeAll { $0.network == nil }
            networks.append(KnownNetwork(network: network))
        }
    }

    package var running: RunningRelay? { state.withLock { $0.running } }

    /// Calls the relay as a function.
    package func respond(to request: APIRequest) async -> APIResponse {
        guard let relay = running?.relay else { return APIResponse(status: .serviceUnavailable) }
        return await relay.respond(to: request)
    }

    /// Returns the relay's response, reported to the world's observer; `nil` if the relay is stopped or ends meanwhile.
    package func answer(_ request: APIRequest) async -> APIResponse? { await running?.answer(request) }

    /// Whether the disk has failed the relay, so that its process should end and start again.
    package var wantsRestart: Bool { running?.wantsRestart ?? false }

    /// The number of notice connections in the relay.
    package var connectionCount: Int { running?.hub.connectionCount ?? 0 }

    /// The relay itself; `nil` while it is stopped.
    package var relay: Relay? { running?.relay }

    /// Removes all assets that no record uses, whatever their age; returns their number.
    package func removeUnusedAssets() async throws -> Int {
        try await running?.stores.removeUnusedAssets(before: Timestamp(milliseconds: .max)) ?? 0
    }

    /// Removes all tombstones, as the relay does with those older than the horizon; returns their number.
    package func forgetTombstones() async throws -> Int {
        try await running?.stores.forgetTombstones(before: Timestamp(milliseconds: .max)) ?? 0
    }

    /// The event loop of this run's notice connections.
    var worker: TestNoticeWorker? { running?.worker }

    /// Waits until the notices of all commits so far have reached the connected devices.
    package func deliverNotices() async {
        guard let running else { return }
        await running.hub.queries.waitUntilIdle()
        await running.worker.settle()
    }
}

extension TestRelay {
    /// Limits that a test may lower, to cause a large application's errors with a small one.
    public struct Limits: Hashable, Sendable {
        /// The maximum number of operations in a request and of records in a response; more fail with `limitExceeded`.
        public var itemsPerRequest = 200
        /// The approximate size of a response in bytes: a page ends there, and a fetch of single records is split.
        public var answerBytes = 16 << 20
        /// The maximum size of a record in bytes, without its assets.
        public var recordBytes = 1_000_000
        /// The maximum number of zones per user, without the default zone.
        public var zonesPerUser = 1_000
        /// The maximum size of a user's private database in bytes, including assets.
        ///
        /// A write that would exceed it fails with `quotaExceeded`.
        public var privateBytes: Int64? = 5_000_000_000

        /// Creates the relay's default limits.
        public init() {}

        var all: RelayCore.Limits {
            var limits = RelayCore.Limits()
            limits.itemsPerRequest = itemsPerRequest
            limits.answerBytes = answerBytes
            limits.recordBytes = recordBytes
            limits.zonesPerUser = zonesPerUser
            limits.quota.privateBytes = privateBytes
            return limits
        }
    }

    /// Fills every user's private database: only writes that take no more space succeed from now on.
    ///
    /// `emptyQuota()` ends this.
    public func fillQuota() { limits.privateBytes = 0 }

    /// Restores the default size limit for all users.
    public func emptyQuota() { limits.privateBytes = Limits().privateBytes }

    /// Expires every change token issued so far, as restoring a backup does.
    ///
    /// Engines and mirrors then fetch everything again; direct calls of the databases fail with `changeTokenExpired`.
    ///
    /// - Throws: the error of SQLite.
    public func expireChangeTokens() throws { try running?.renewEpochs() }
}

extension TestRelay {
    /// Moves the clock until no device has anything left to do.
    ///
    /// Then no request is in progress, nothing waits to be sent or fetched, every notice has arrived, and every device
    /// without notices has polled since the last change.
    ///
    /// Takes no real time but that of the work itself: a back-off of five minutes or a poll in half an hour is one step
    /// of the clock. Does not wait for disconnected devices, nor for engines and mirrors that sync only on request.
    ///
    /// - Parameter limit: how far to move the clock at most; a day by default.
    /// - Throws: `NotSettled`, which lists what was still to be done.
    public func settle(within limit: Duration = .seconds(86_400)) async throws { try await world.settle(within: limit) }

    /// Moves the clock, and lets everything that is due on the way happen at its time.
    ///
    /// - Parameter duration: how far to move the clock.
    public func advance(by duration: Duration) async { await world.advance(by: duration) }
}

/// The folder and the calls that a test's relay writes with; requested at each start.
package struct RelayDisk: Sendable {
    package var place: @Sendable () -> (folder: String, calls: DiskCalls)

    package init(place: @escaping @Sendable () -> (folder: String, calls: DiskCalls)) { self.place = place }
}

/// The error of a clock.
final class ClockError: Sendable {
    private let error = Mutex(Duration.zero)

    var value: Duration {
        get { error.withLock { $0 } }
        set { error.withLock { $0 = newValue } }
    }
}
