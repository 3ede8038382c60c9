public import Foundation
import HTTPTypes
import Records
package import RelayAPI
import RelayCore
import RelayStore
import Synchronization
public import ZoneKit

/// A whole relay inside a test: the server's own code, without sockets, under a clock that stands still until told.
///
///     let relay = try TestRelay()
///     let phone = relay.device(of: "alice", named: "phone")
///     try await phone.container.privateCloudDatabase.save(CKRecord(recordType: "Note"))
///     try await relay.settle()
///
/// All rules are the real ones: permissions, limits, atomic zones, change tags, change feeds. Engines, mirrors and pollers
/// of its devices live by its clock. Two relays of one seed draw the same tokens, names and zone identities.
public final class TestRelay: Sendable {
    /// Where the relay keeps its records.
    public enum Storage: Sendable {
        /// In memory; gone at the end of the test, or when the relay is restarted.
        case memory
        /// In files of a temporary folder, which goes with the relay. Restarting finds them again.
        case temporaryFolder
    }

    /// What makes this relay different from an ordinary one.
    public struct Options: Sendable {
        /// Where records are kept.
        public var storage = Storage.memory
        /// Where randomness begins.
        public var seed: UInt64 = 1
        /// Where the clock begins.
        public var start = Date(timeIntervalSince1970: 1_700_000_000)
        /// Whether users may send any number of requests, as suits a clock that stands still.
        public var isUnhurried = true
        /// The bounds that it begins with.
        public var limits = Limits()
        /// So many pages of a store's log are written back into its file at once, beside commits.
        package var checkpointPages = 8_000

        /// The usual ones.
        public init() {}
    }

    /// The clock that relay and devices share.
    public let clock: TestClock
    /// The container that devices use unless they name another.
    public static let containerIdentifier = "iCloud.test"

    static let home = ContainerID(containerIdentifier).map { ContainerEnvironment($0, .development) }
    package let world: World
    /// The relay's files, and those of its devices.
    package let folder: TestFolder
    let options: Options
    private let disk: RelayDisk?
    private let clockWrong = ClockError()
    private let state: Mutex<State>
    private let networks = Mutex<[KnownNetwork]>([])

    private struct State {
        /// `nil` while it is stopped.
        var running: RunningRelay?
        var limits: Limits
    }

    /// Starts a relay.
    ///
    /// - Parameter options: Left out: in memory, from seed 1.
    /// - Throws: What SQLite or the file system throws when the store cannot be made.
    public convenience init(_ options: Options = Options()) throws {
        let world = World(clock: TestClock(start: options.start), seed: options.seed)
        try self.init(options, world: world, folder: TestFolder())
    }

    /// A relay in a world that somebody else steps.
    ///
    /// `disk`, where given, is what a relay with storage in files writes to.
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

    /// Nobody comes to it any more: with it goes what was on its way, and the files of all its devices.
    deinit {
        state.withLock { $0.running?.stop() }
        clock.dropCalls()
        folder.remove()
    }

    /// A device of a user, with an account, a name and a network of its own.
    ///
    /// - Parameters:
    ///   - user: Any name; the user is made when first seen.
    ///   - name: What the device is called; left out, `device`.
    ///   - container: Left out, `TestRelay.containerIdentifier`.
    ///   - encryptionKey: Gives the user's key of encrypted values; left out, they go to the relay as they are.
    /// - Returns: A device that is online.
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

    /// Somebody who is not signed in, and can but read the public database.
    ///
    /// - Parameter container: Left out, `TestRelay.containerIdentifier`.
    /// - Returns: A device that is online.
    public func visitor(container: String = TestRelay.containerIdentifier) -> TestDevice {
        TestDevice(relay: self, TestDevice.Identity(user: nil, name: "visitor", container: container))
    }

    // MARK: Life

    /// Stops the relay and starts it again on the same files; with storage in memory all is forgotten.
    ///
    /// - Throws: What SQLite or the file system throws when the store cannot be opened.
    public func restart() throws {
        stop()
        try start()
    }

    /// Stops the relay in good order: what waits to be written is, and open notice connections are told.
    ///
    /// Until `start()` no device reaches it.
    public func stop() { state.withLock { $0.running.take() }?.stop() }

    /// Ends the relay at once, as the end of its process would: writes under way are not answered, and are there or not.
    ///
    /// Until `start()` no device reaches it.
    public func kill() {
        state.withLock { $0.running.take() }?.kill()
        networks.withLock { $0.compactMap(\.network) }.forEach { $0.dropSockets() }
    }

    /// Starts the relay on its files; does nothing where it runs.
    ///
    /// - Throws: What SQLite or the file system throws when the store cannot be opened.
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

    /// By how much the relay's clock is wrong; every order of changes is the same with any clock.
    ///
    /// Only what has an end by the clock notices: sign-ins and links.
    public var clockError: Duration {
        get { clockWrong.value }
        set { clockWrong.value = newValue }
    }

    /// Whether it runs.
    public var isRunning: Bool { state.withLock { $0.running != nil } }

    /// The bounds that it holds requests and users to; what is set holds from the next request on.
    public var limits: Limits {
        get { state.withLock { $0.limits } }
        set {
            state.withLock { state in
                state.limits = newValue
                state.running?.apply(newValue)
            }
        }
    }

    // MARK: For the other parts

    private struct KnownNetwork: Sendable { weak var network: TestNetwork? }

    /// Makes a network known, weakly, so that it hears of the relay's sudden end.
    func join(_ network: TestNetwork) {
        networks.withLock { networks in
            networks.removeAll { $0.network == nil }
            networks.append(KnownNetwork(network: network))
        }
    }

    var running: RunningRelay? { state.withLock { $0.running } }

    /// The relay as a function.
    package func respond(to request: APIRequest) async -> APIResponse {
        guard let relay = running?.relay else { return APIResponse(status: .serviceUnavailable) }
        return await relay.respond(to: request)
    }

    /// What the relay answers, seen by the world's witness; `nil` where it is not running or ends meanwhile.
    package func answer(_ request: APIRequest) async -> APIResponse? { await running?.answer(request) }

    /// Whether the disk has failed the relay, so that its process had better end and start again.
    package var wantsRestart: Bool { running?.wantsRestart ?? false }

    /// How many notice connections the relay knows of.
    package var connectionCount: Int { running?.hub.connectionCount ?? 0 }

    /// The relay itself; a stopped one gives nothing.
    package var relay: Relay? { running?.relay }

    /// Removes the files that no record uses, however new they are; tells how many.
    package func removeUnusedAssets() async throws -> Int {
        try await running?.stores.removeUnusedAssets(before: Timestamp(milliseconds: .max)) ?? 0
    }

    /// Forgets all that was deleted, as the relay does with what is older than the tombstone horizon; tells how much.
    package func forgetTombstones() async throws -> Int {
        try await running?.stores.forgetTombstones(before: Timestamp(milliseconds: .max)) ?? 0
    }

    /// Where this life's notice connections are.
    var lane: TestLane? { running?.lane }

    /// Returns when the notices of all commits so far have reached the devices that listen.
    package func deliverNotices() async {
        guard let running else { return }
        await running.hub.queries.settle()
        await running.lane.settle()
    }
}
