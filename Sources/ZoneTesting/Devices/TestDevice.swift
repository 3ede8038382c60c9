public import Foundation
import Records
import Synchronization
public import ZoneKit

/// One device of one user, joined to a `TestRelay` by a network that can be cut.
///
/// Engines, mirrors and pollers of its `container` live by the relay's clock. A device lives until it crashes; `restarted()`
/// gives the same device in its next life, with what it had stored.
public final class TestDevice: Sendable {
    /// Who the device is, in all its lives.
    struct Identity: Sendable {
        var user: String?
        var name: String
        var container: String
        var encryptionKey: (any EncryptionKeyProvider)?

        var deviceID: String { "\(user ?? "nobody")-\(name)" }
    }

    /// The name of the device's user; `nil` for somebody who is not signed in.
    public var user: String? { identity.user }
    /// What the device is called.
    public var name: String { identity.name }
    /// The container as a program on this device has it.
    public let container: CKContainer
    /// The way to the relay.
    public let network: TestNetwork

    package let connection: RelayConnection
    let relay: TestRelay
    let identity: Identity
    package let party: Party
    let life: DeviceLife
    private let clockWrong: ClockError
    /// Whoever has signed in by `signIn(as:)` last.
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

    /// The clock, chance and tasks of the relay's world.
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

    /// By how much the device's clock is wrong; no order of changes depends on it.
    public var clockError: Duration {
        get { clockWrong.value }
        set { clockWrong.value = newValue }
    }

    /// The user's own data.
    public var privateDatabase: CKDatabase { container.privateCloudDatabase }
    /// Everybody's data.
    public var publicDatabase: CKDatabase { container.publicCloudDatabase }
    /// What others share with the user.
    public var sharedDatabase: CKDatabase { container.sharedCloudDatabase }

    /// Where the program on this device keeps its files; goes with the relay.
    ///
    /// Its own in each life: a restarted device begins with a copy of what was there at the moment of the crash.
    ///
    /// - Returns: A folder that exists.
    /// - Throws: What the file system throws.
    public func folder() throws -> URL { try life.folder() }
}

/// Ends what a crash has met in the middle.
struct DeviceCrashed: Error {}
