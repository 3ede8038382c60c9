public import Foundation
import Records
import Synchronization
public import ZoneKit

/// One device of one user, connected to a `TestRelay` by a network that can be cut.
///
/// Engines, mirrors and pollers of its `container` use the relay's clock. After a crash, `restarted()` returns the same
/// device with the files that it had stored.
public final class TestDevice: Sendable {
    /// The identity of the device, across restarts.
    struct Identity: Sendable {
        var user: String?
        var name: String
        var container: String
        var encryptionKey: (any EncryptionKeyProvider)?

        var deviceID: String { "\(user ?? "nobody")-\(name)" }
    }

    /// The name of the device's user; `nil` for a device without a signed-in user.
    public var user: String? { identity.user }
    /// The name of the device.
    public var name: String { identity.name }
    /// The container for the program on this device.
    public let container: CKContainer
    /// The connection to the relay.
    public let network: TestNetwork

    package let connection: RelayConnection
    let relay: TestRelay
    let identity: Identity
    package let party: Party
    let life: DeviceLife
    private let clockWrong: ClockError
    /// The user of the last `signIn(as:)`.
    let signedIn = Mutex<String?>(nil)

    convenience init(relay: TestRelay, _ identity: Identity) {
        self.init(relay: relay, identity, life: DeviceLife(number: 1, identity.deviceID, in: relay))
    }

    init(relay: TestRelay, _ identity: Identity, life: DeviceLife) {
        self.relay = relay
        self.identity = identity
        self.life = life
        let party = life.party
        self.party = party
        clockWrong = life.clockError
        let network = TestNetwork(relay: relay, party: party, device: identity.deviceID) { operation, isAnswered in
            life.reached(isAnswered ? .answered(operation) : .sending(operation))
        }
        self.network = network
        relay.join(network)
        var connection = RelayConnection(
            container: identity.container,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: identity.user.map { "dev-\($0)" }),
            deviceID: identity.deviceID,
            transport: network
        )
        connection.sockets = TestSockets(network: network)
        connection.encryptionKey = identity.encryptionKey
        connection.conditions = Self.conditions(relay, identity, life, network)
        self.connection = connection
        container = CKContainer(connection: connection)
        life.whenOver { [weak network] in network?.end() }
    }

    /// Returns the clock, random source and executor of the relay's world.
    private static func conditions(
        _ relay: TestRelay,
        _ identity: Identity,
        _ life: DeviceLife,
        _ network: TestNetwork
    ) -> SyncConditions {
        let (clock, random) = (relay.clock, relay.world.random)
        let surroundings = DeviceSurroundings(
            world: relay.world,
            party: life.party,
            device: identity.deviceID,
            isReachable: { [weak network] in network?.isCut == false }
        )
        var conditions = SyncConditions()
        conditions.time = Timekeeper(clock, surroundings: surroundings)
        conditions.chance = Chance { random.number() }
        let clockError = life.clockError
        conditions.wallClock = { clock.date.addingTimeInterval(clockError.value.inSeconds) }
        conditions.crashPoint = { name in
            guard let place = MirrorPlace(rawValue: name) else { return }
            life.reached(.mirror(place))
            if life.party.isGone { throw DeviceCrashed() }
        }
        return conditions
    }

    /// The error of the device's clock, which does not affect the order of changes.
    public var clockError: Duration {
        get { clockWrong.value }
        set { clockWrong.value = newValue }
    }

    /// The user's own data.
    public var privateDatabase: CKDatabase { container.privateCloudDatabase }
    /// The data of all users.
    public var publicDatabase: CKDatabase { container.publicCloudDatabase }
    /// The data that others share with the user.
    public var sharedDatabase: CKDatabase { container.sharedCloudDatabase }

    /// Returns the folder for the files of the program on this device; removed with the relay.
    ///
    /// After a restart it is a different folder: a copy of the former one at the time of the crash.
    ///
    /// - Returns: a folder that exists.
    /// - Throws: the error of the file system.
    public func folder() throws -> URL { try life.folder() }
}

/// Thrown out of the work that a crash has interrupted.
struct DeviceCrashed: Error {}
