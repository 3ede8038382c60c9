import Crypto
import HTTPTypes
import Records
package import RelayCore
import Synchronization
import Wire

/// Registers devices for push notifications and ends their registrations.
final class PushService: NoticeReceiver {
    /// The maximum number of registrations of one user in one container; another one ends the oldest.
    static let limitPerUser = 20

    private let register: any PushDeviceStore
    private let gateway: any PushGateway
    private let hub: NoticeHub
    private let worker: PushWorker
    /// The number of the worker in the hub.
    let workerNumber: Int
    private let connected = ConnectedDevices()
    private let owner: PushOwner
    private let tasks: (any TaskExecutor)?
    private let stores: any StoreCatalog
    private let authenticator: Authenticator
    private let time: TimeSource
    private let random: RandomSource

    init(
        _ service: PushDependencies,
        hub: NoticeHub,
        authenticator: Authenticator,
        stores: any StoreCatalog,
        time: TimeSource,
        random: RandomSource
    ) {
        register = service.register
        gateway = service.gateway
        tasks = service.tasks
        self.hub = hub
        self.stores = stores
        self.authenticator = authenticator
        self.time = time
        self.random = random
        let register = service.register
        let owner = PushOwner(hub.bus.node)
        self.owner = owner
        // Weak because the hub retains its executors.
        worker = PushWorker(
            gateway: service.gateway,
            limits: hub.limits,
            uptime: time.uptime,
            sleep: service.sleep,
            tasks: service.tasks,
            isOwn: { owner.sends(to: $0) },
            isConnected: { [connected] in connected.contains($0.deviceID, at: $0.address) },
            events: PushWorker.Events(
                ended: { [weak hub] device, connection in
                    hub?.leave(AdmittedDevice(device), as: connection)
                    // If the disk write fails, the next push gets the same result.
                    try? register.removePushDevices([device.id])
                },
                faultChanged: { device in try? register.notePushFault(device.lastFault, of: device.id) }
            )
        )
        workerNumber = hub.add(worker)
        hub.bus.add(self)
    }

    /// Notes which devices have an open socket, which get no pushes, and which nodes are alive.
    func receive(_ message: NoticeMessage) {
        switch message {
        case .presence(let device, let address, let connection, let isConnected, let node):
            let connection = ConnectedDevices.Connection(id: connection, node: node)
            if isConnected {
                connected.add(device, at: address, as: connection)
            } else {
                connected.remove(device, at: address, as: connection)
            }
        case .present(let devices, let node): connected.replace(with: devices, on: node)
        case .nodesChanged(let live):
            owner.nodesChanged(to: live)
            connected.removeAll { $0.map { !live.contains($0) } ?? false }
        case .pushDevicesChanged(let address):
            // The caller's thread must not wait for the directory.
            Task(executorPreference: tasks ?? stores.executor) { [weak self] in self?.readAgain(address) }
        case .sweeping: sweep()
        case .zonesChanged, .recordsChanged, .recordMatched, .subscriptionsChanged, .schemaChanged, .credentialsRevoked:
            break
        }
    }

    /// Reads the registrations that other nodes have changed, and repeats which devices are connected here.
    private func sweep() {
        guard let node = hub.bus.node, let devices = try? register.pushDevices() else { return }
        let kept = Set(devices.map(\.id))
        for device in worker.devices where !kept.contains(device.id) { forget(device.id) }
        for device in devices where !worker.knows(device.id) { try? listen(device) }
        hub.bus.share(.present(connected.devices(among: devices, on: node), on: node))
    }

    /// Reads the registrations of a user that another node has changed.
    private func readAgain(_ address: NoticeAddress) {
        guard let devices = try? register.pushDevices(of: address.user, in: address.store) else { return }
        let kept = Set(devices.map(\.id))
        for device in worker.devices(at: address) where !kept.contains(device.id) { forget(device.id) }
        for device in devices where !worker.knows(device.id) { try? listen(device) }
    }

    /// The relay's public key for browsers; `nil` without Web Push.
    var webPushKey: [UInt8]? { gateway.webPushKey }

    /// The number of registered devices.
    var count: Int { worker.count }

    func stop() { worker.stop() }

    /// Registers the stored devices with the hub.
    ///
    /// Call once, before the first request.
    ///
    /// What they missed while the relay was down is unknown; they fetch changes when they wake.
    func begin() throws(DirectoryError) {
        var ended: [String] = []
        for device in try register.pushDevices() {
            if isStillValid(device) { try? listen(device) } else { ended.append(device.id) }
        }
        // The relay must also start on a full disk; the next start removes what remains.
        try? register.removePushDevices(ended)
    }

    /// Ends the registrations of expired sessions, for which there is no revocation event.
    func removeExpiredRegistrations() throws(DirectoryError) {
        let ended = try register.pushDevices().filter { !isStillValid($0) }.map(\.id)
        try register.removePushDevices(ended)
        for id in ended { forget(id) }
    }

    /// Returns whether the credential is still valid; `true` if the directory cannot be read.
    private func isStillValid(_ device: PushDevice) -> Bool {
        guard let credential = device.credential else { return true }
        return (try? authenticator.isStillValid(credential)) ?? true
    }

    /// Ends the registrations with a store that were deleted with it.
    func removeDeletedRegistrations(in home: ContainerEnvironment) throws(DirectoryError) {
        let kept = Set(try register.pushDevices().map(\.id))
        for device in worker.devices(in: home) where !kept.contains(device.id) { forget(device.id) }
    }

    // MARK: Registrations

    /// Registers the caller's device and replaces an older registration of the same device.
    func add(
        _ target: PushTarget,
        for authentication: Authentication,
        in home: ContainerEnvironment
    ) throws -> PushDevice {
        guard let user = authentication.caller.user else { throw authentication.signInRequired }
        if let objection = gateway.objection(to: target) { throw RelayError.badRequest(objection) }
        var device = PushDevice(
            id: random.hex(byteCount: 16),
            home: home,
            user: user,
            deviceID: authentication.caller.deviceID,
            session: nil,
            apiTokenHash: [],
            target: target,
            registered: time.now()
        )
        if case .session(let session, let hash) = authentication.credential {
            device.session = session
            device.apiTokenHash = hash
        }
        for id in try register.addPushDevice(device, limit: Self.limitPerUser) { forget(id) }
        try listen(device)
        // Another node may have to send the pushes.
        hub.bus.share(.pushDevicesChanged(at: device.address))
        return device
    }

    /// Ends the registration of the caller's device, if there is one.
    func remove(for authentication: Authentication, in home: ContainerEnvironment) throws {
        guard let user = authentication.caller.user else { throw authentication.signInRequired }
        let deviceID = authentication.caller.deviceID
        let known = worker.device(deviceID, at: NoticeAddress(store: home, user: user)).map { [$0.id] } ?? []
        // The device may have registered at another node, of which this one learns with its next sweep.
        let stored =
            hub.bus.node == nil
            ? [] : try register.pushDevices(of: user, in: home).filter { $0.deviceID == deviceID }.map(\.id)
        let ended = Set(known + stored)
        guard !ended.isEmpty else { return }
        try register.removePushDevices(ended.sorted())
        for id in ended { forget(id) }
        hub.bus.share(.pushDevicesChanged(at: NoticeAddress(store: home, user: user)))
    }

    private func forget(_ id: String) {
        guard let (device, connection) = worker.remove(id) else { return }
        hub.leave(AdmittedDevice(device), as: connection)
    }

    private func listen(_ device: PushDevice) throws(RelayError) {
        let connection = hub.newConnectionID()
        worker.add(device, as: connection)
        do {
            let revision = try hub.join(AdmittedDevice(device), as: connection, on: workerNumber)
            hub.bus.follow(device.address)
            let known = try stores.store(of: device.home).read { reader throws(RelayError) in
                try reader.noticeSubscriptions(of: device.user)
            }
            hub.subscriptionsRead(known, of: device.address, revision: revision)
        } catch {
            forget(device.id)
            throw RelayError(
                .tryAgainLater,
                "The relay cannot register another device of this user now.",
                retryAfter: .seconds(60)
            )
        }
    }
}

/// The devices that are connected, by their latest connection.
private final class ConnectedDevices: Sendable {
    struct Connection: Hashable {
        var id: NoticeConnectionID
        var node: NodeID?
    }

    private let connections = Mutex<[NoticeAddress: [String: Connection]]>([:])

    func contains(_ device: String, at address: NoticeAddress) -> Bool {
        connections.withLock { $0[address]?[device] != nil }
    }

    func add(_ device: String, at address: NoticeAddress, as connection: Connection) {
        connections.withLock { $0[address, default: [:]][device] = connection }
    }

    /// Removes the device, unless it has a newer connection.
    func remove(_ device: String, at address: NoticeAddress, as connection: Connection) {
        connections.withLock { connections in
            guard connections[address]?[device] == connection else { return }
            connections[address]?[device] = nil
            if connections[address]?.isEmpty == true { connections[address] = nil }
        }
    }

    /// Returns those of the devices that are connected to a node.
    func devices(among devices: [PushDevice], on node: NodeID) -> [PresentDevice] {
        connections.withLock { connections in
            devices.compactMap { device in
                guard let connection = connections[device.address]?[device.deviceID], connection.node == node else {
                    return nil
                }
                return PresentDevice(deviceID: device.deviceID, address: device.address, connection: connection.id)
            }
        }
    }

    /// Replaces the devices that are connected to a node.
    func replace(with devices: [PresentDevice], on node: NodeID) {
        removeAll { $0 == node }
        for device in devices {
            add(device.deviceID, at: device.address, as: Connection(id: device.connection, node: node))
        }
    }

    /// Removes the connections to the nodes for which `isGone` returns `true`.
    func removeAll(where isGone: (NodeID?) -> Bool) {
        connections.withLock { connections in
            connections = connections.compactMapValues { devices in
                let kept = devices.filter { !isGone($0.value.node) }
                return kept.isEmpty ? nil : kept
            }
        }
    }
}

/// The dependencies of push notifications.
package struct PushDependencies: Sendable {
    package var gateway: any PushGateway
    package var register: any PushDeviceStore
    /// Sleeps by the clock of the relay's uptime.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// Runs the tasks that send; `nil` for the global executor.
    package var tasks: (any TaskExecutor)?

    package init(
        gateway: any PushGateway,
        register: any PushDeviceStore,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        tasks: (any TaskExecutor)? = nil
    ) {
        self.tasks = tasks
        self.gateway = gateway
        self.register = register
        self.sleep = sleep
    }
}

extension PushDevice {
    /// The credential of the registration; `nil` if it cannot be revoked.
    var credential: Credential? { session.map { .session($0, apiTokenHash: apiTokenHash) } }
}

extension AdmittedDevice {
    /// Creates a device in addition to the device's own socket; its ID differs so that it does not replace that.
    fileprivate init(_ device: PushDevice) {
        self.init(address: device.address, deviceID: "push-\(device.id)", credential: device.credential)
    }
}
