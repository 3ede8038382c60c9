public import Foundation
import Records
import Synchronization
public import ZoneKit
public import ZoneMirror

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
    package let process: SimulatedProcess
    let run: DeviceRun
    private let clockWrong: ClockError
    /// The user of the last `signIn(as:)`.
    let signedIn = Mutex<String?>(nil)

    convenience init(relay: TestRelay, _ identity: Identity) {
        self.init(relay: relay, identity, run: DeviceRun(number: 1, identity.deviceID, in: relay))
    }

    init(relay: TestRelay, _ identity: Identity, run: DeviceRun) {
        self.relay = relay
        self.identity = identity
        self.run = run
        let process = run.process
        self.process = process
        clockWrong = run.clockError
        let network = TestNetwork(relay: relay, process: process, device: identity.deviceID) { operation, isAnswered in
            run.reached(isAnswered ? .answered(operation) : .sending(operation))
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
        connection.conditions = Self.conditions(relay, identity, run, network)
        self.connection = connection
        container = CKContainer(connection: connection)
        run.onEnd { [weak network] in network?.end() }
    }

    /// Returns the clock, random source and executor of the relay's world.
    private static func conditions(
        _ relay: TestRelay,
        _ identity: Identity,
        _ run: DeviceRun,
        _ network: TestNetwork
    ) -> SyncConditions {
        let (clock, random) = (relay.clock, relay.world.random)
        let testEnvironment = DeviceEnvironment(
            world: relay.world,
            process: run.process,
            device: identity.deviceID,
            isReachable: { [weak network] in network?.isCut == false }
        )
        var conditions = SyncConditions()
        conditions.time = Scheduler(clock, testEnvironment: testEnvironment)
        conditions.random = RandomGenerator { random.number() }
        // The test injects the failures.
        conditions.log = { _ in }
        let clockError = run.clockError
        conditions.wallClock = { clock.date.addingTimeInterval(clockError.value.inSeconds) }
        conditions.crashPoint = { name in
            guard let place = MirrorPlace(rawValue: name) else { return }
            run.reached(.mirror(place))
            if run.process.hasEnded { throw DeviceCrashed() }
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
    public func folder() throws -> URL { try run.folder() }
}

/// Thrown out of the work that a crash has interrupted.
struct DeviceCrashed: Error {}

extension TestDevice {
    /// Signs the device's user in as a sign-in page does: the device gets a web auth token, which can expire.
    ///
    /// Initially a device uses a development token with the user's name, and needs no sign-in.
    ///
    /// - Throws: `notAuthenticated` for a visitor, or the error of the relay's storage.
    public func signIn() async throws {
        guard let user else { throw CKError(.notAuthenticated, "A visitor has no user name to sign in with.") }
        try await signIn(as: user)
    }

    /// Signs a user in on this device, which may be another one than the device's own.
    ///
    /// Engines and mirrors react as to a change of the account in an application: engines call their delegates, mirrors
    /// open that user's files. `user` does not change; `signIn()` signs that user in again.
    ///
    /// - Parameter user: any name; the user is created on first use.
    /// - Throws: `networkFailure` while the relay is stopped, or the error of its storage.
    public func signIn(as user: String) async throws {
        guard let token = try relay.running?.signIn(user, to: identity.container) else {
            throw CKError(.networkFailure, "The relay must be running to sign in.")
        }
        try await container.signIn(.webAuthToken(token))
        signedIn.withLock { $0 = user }
    }

    /// Ends all sessions of the user who is signed in on this device, on all devices.
    ///
    /// Requests fail with `notAuthenticated`, and notice connections close. If the device's user has never signed in,
    /// signs the user in first. `signIn()` or `signIn(as:)` ends this state.
    ///
    /// - Throws: the errors of `signIn()`.
    public func expireSignIn() async throws {
        guard let user = signedIn.withLock({ $0 }) ?? user else {
            throw CKError(.notAuthenticated, "A visitor has no session to end.")
        }
        if connection.credentials.webAuthToken == "dev-\(user)" { try await signIn() }
        try relay.running?.endSignIns(of: user)
    }
}

extension TestDevice {
    /// Creates a mirror of one of the user's databases, in a file in the device's folder, that syncs by itself.
    ///
    /// After a restart of the device the same call opens the same file.
    ///
    /// - Parameters:
    ///   - model: the entities.
    ///   - scope: the scope of the database; private by default.
    ///   - change: can change the store description before the store is opened.
    /// - Returns: the container, with its store open.
    /// - Throws: the error of `MirroredContainer.loadStores()`.
    public func mirror(
        of model: MirrorModel,
        scope: CKDatabase.Scope = .private,
        _ change: (inout StoreDescription) -> Void = { _ in }
    ) async throws -> MirroredContainer {
        var description = storeDescription(scope: scope, in: try folder())
        change(&description)
        let mirror = MirroredContainer(model: model, stores: [description])
        try await mirror.loadStores()
        return mirror
    }

    /// Creates a mirror of the user's private and shared databases, in one container.
    ///
    /// - Parameter model: the entities.
    /// - Returns: the container, with both stores open.
    /// - Throws: the error of `MirroredContainer.loadStores()`.
    public func sharingMirror(of model: MirrorModel) async throws -> MirroredContainer {
        let folder = try folder()
        let stores = [CKDatabase.Scope.private, .shared].map { storeDescription(scope: $0, in: folder) }
        let mirror = MirroredContainer(model: model, stores: stores)
        try await mirror.loadStores()
        return mirror
    }

    private func storeDescription(scope: CKDatabase.Scope, in folder: URL) -> StoreDescription {
        StoreDescription(
            url: folder.appendingPathComponent("\(scope).sqlite"),
            cloud: CloudOptions(container: container, scope: scope)
        )
    }
}

extension TestDevice {
    /// A place at which a test can crash a device.
    public enum CrashPlace: Hashable, Sendable {
        /// A request, such as `records/modify`, is about to be sent.
        case sending(String)
        /// The relay has responded to a request, and the program has not received the response yet.
        case answered(String)
        /// A mirror has reached a place in its own work.
        case mirror(MirrorPlace)

        func isMet(by place: CrashPlace) -> Bool {
            switch (self, place) {
            case (.sending(let wanted), .sending(let met)), (.answered(let wanted), .answered(let met)):
                met.hasSuffix(wanted)
            case (.mirror(let wanted), .mirror(let met)): wanted == met
            default: false
            }
        }
    }

    /// The places in a mirror's work at which it can be interrupted.
    public enum MirrorPlace: String, Hashable, Sendable, CaseIterable {
        /// A batch is marked as possibly sent, and has not been sent.
        case beforeSend
        /// The relay has responded, and nothing of the response is stored.
        case afterSend
        /// The confirmation is written, but not committed.
        case insideConfirm
        /// The confirmation is committed.
        case afterConfirm
        /// A page of changes has arrived, and nothing of it is stored.
        case beforeImport
        /// The page's rows are written, but not committed.
        case insideImport
        /// The page is committed.
        case afterImport
        /// The zones in a page of the database's feed are written, but not committed.
        case insideDatabasePage
        /// Half of a full listing is stored.
        case insideSweep
    }

    /// Ends the program on this device at once, in the middle of whatever it does.
    ///
    /// Its engines, mirrors and pollers never act again; requests in progress may or may not be executed.
    public func crash() { run.end() }

    /// Ends the program on this device when it reaches a place.
    ///
    /// - Parameters:
    ///   - place: the place.
    ///   - times: how many times from now on it must reach the place, at least 1.
    public func crash(at place: CrashPlace, times: Int = 1) { run.scheduleCrash(place, skipping: times - 1) }

    /// Whether the program has crashed.
    public var hasCrashed: Bool { process.hasEnded }

    /// Restarts the device: returns the same device, online, with the files of its folder as they were at the crash.
    ///
    /// A device that has not crashed is crashed first.
    ///
    /// - Returns: the device, for which stores and engines must be created again.
    /// - Throws: the error of the file system.
    public func restarted() throws -> TestDevice {
        crash()
        return TestDevice(relay: relay, identity, run: try run.next(in: relay))
    }
}

typealias MirrorPlace = TestDevice.MirrorPlace
