public import Foundation
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
///
/// All rules are the real ones: permissions, limits, atomic zones, change tags, change feeds. Two relays of one seed
/// draw the same tokens, names and zone identities.
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

        /// The usual ones.
        public init() {}
    }

    /// The clock that relay and devices share.
    public let clock: TestClock
    /// The container that devices use unless they name another.
    public static let containerIdentifier = "iCloud.test"

    package let folder: URL?
    private let options: Options
    private let random: SeededRandom
    private let running: Mutex<RunningRelay>

    /// Starts a relay.
    ///
    /// - Parameter options: Left out: in memory, from seed 1.
    /// - Throws: What SQLite or the file system throws when the store cannot be made.
    public init(_ options: Options = Options()) throws {
        self.options = options
        clock = TestClock(start: options.start)
        random = SeededRandom(seed: options.seed)
        folder = try options.storage.makeFolder()
        running = Mutex(try RunningRelay(options, folder: folder, clock: clock, random: random))
    }

    deinit {
        running.withLock { $0.stop() }
        if let folder { try? FileManager.default.removeItem(at: folder) }
    }

    /// Stops the relay and starts it again on the same files; with storage in memory all is forgotten.
    ///
    /// - Throws: What SQLite or the file system throws when the store cannot be opened.
    public func restart() throws {
        try running.withLock { running in
            running.stop()
            running = try RunningRelay(options, folder: folder, clock: clock, random: random)
        }
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
        TestDevice(relay: self, user: user, name: name, container: container, encryptionKey: encryptionKey)
    }

    /// Somebody who is not signed in, and can but read the public database.
    ///
    /// - Parameter container: Left out, `TestRelay.containerIdentifier`.
    /// - Returns: A device that is online.
    public func visitor(container: String = TestRelay.containerIdentifier) -> TestDevice {
        TestDevice(relay: self, user: nil, name: "visitor", container: container)
    }

    /// The relay as a function.
    package func respond(to request: APIRequest) async -> APIResponse {
        await running.withLock { $0.relay }.respond(to: request)
    }

    package var relay: Relay { running.withLock { $0.relay } }

    /// Where this life's notice connections are.
    var lane: TestLane { running.withLock { $0.lane } }

    /// Returns when the notices of all commits so far have reached the devices that listen.
    package func deliverNotices() async {
        await running.withLock { $0.hub }.queries.settle()
        await lane.settle()
    }
}

extension TestRelay.Storage {
    fileprivate func makeFolder() throws -> URL? {
        switch self {
        case .memory: return nil
        case .temporaryFolder:
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("zonecast-test-\(UUID().uuidString)", isDirectory: true)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            return folder
        }
    }
}

/// One life of a relay, from start to stop.
private struct RunningRelay: Sendable {
    let relay: Relay
    let lane: TestLane
    let hub: NoticeHub
    private let stores: StoreFolder

    init(_ options: TestRelay.Options, folder: URL?, clock: TestClock, random: SeededRandom) throws {
        let time = clock.timeSource
        let source = RandomSource { random.bytes($0) }
        let directory: AccountStore
        if let folder {
            directory = try AccountStore(folder: folder.path, time: time, random: source, cost: .test)
        } else {
            directory = try AccountStore(inMemory: (), time: time, random: source)
        }
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        if options.isUnhurried {
            settings.requestRate = nil
            settings.publicRate = nil
            settings.failedCredentialRate = nil
        }
        let hub = NoticeHub(relayName: "test", noticeID: { source.hex(byteCount: 16) })
        self.hub = hub
        stores = StoreFolder(
            folder: folder?.path,
            draw: { random.number() },
            onCommit: { home, changes in hub.publish(changes, of: home) }
        )
        relay = Relay(
            authenticator: try Authenticator(directory: directory, settings: settings, time: time, random: source),
            stores: stores,
            hub: hub,
            time: time,
            random: source
        )
        let admission = RelayAdmission(relay: relay, hub: hub, time: time)
        lane = TestLane(hub: hub, admission: admission, uptime: time.uptime)
        clock.whenMoved { [weak lane] in lane?.tick() }
    }

    func stop() {
        lane.stop()
        stores.close()
    }
}

extension ScryptCost {
    /// Cheap: nobody attacks a test's passwords.
    fileprivate static let test = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)
}
