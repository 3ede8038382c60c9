import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Wire
import ZoneTesting

/// A client's end of a notice socket.
final class ClientSocket: NoticeTransport, @unchecked Sendable {
    // Unchecked: used only on the simulation's thread.
    let node: SimulatedNode
    private let client: NodesClient
    private(set) var connection: NoticeConnection?
    private(set) var isOpen = true

    init(_ client: NodesClient, to node: SimulatedNode) {
        self.client = client
        self.node = node
    }

    func open(_ token: String, _ home: ContainerEnvironment) {
        let connection = NoticeConnection(
            request: APIRequest(method: .get, path: "/push/1/\(home.container)/\(home.environment.rawValue)"),
            hub: node.hub,
            worker: node.worker,
            registry: node.registry,
            admission: node.admission,
            uptime: { [timeline = client.world.timeline] in timeline.now },
            transport: self
        )
        self.connection = connection
        node.sockets.append(self)
        connection.handle(
            .received(text: ClientFrame.hello(NoticeHello(deviceID: client.name, webAuthToken: token)).encoded)
        )
        Task(executorPreference: node.process) { await self.connection?.admit() }
    }

    func send(_ frame: NoticeFrame) {
        guard let read = try? ServerFrame(decoding: frame.text) else { return }
        client.world.timeline.after(client.world.delay) {
            if self.isOpen { self.client.received(read, on: self) }
        }
    }

    func sendPing() { client.world.timeline.after(client.world.delay) { self.connection?.handle(.receivedPong) } }
    func sendPong(_ payload: [UInt8]) {}

    func close(_ reason: NoticeClose) {
        abort()
        let client = client
        client.world.timeline.after(client.world.delay) { client.closed(self) }
    }

    /// Ends the connection, on whatever side's initiative.
    func abort() {
        guard isOpen else { return }
        isOpen = false
        connection?.closed()
        connection = nil
        node.sockets.removeAll { $0 === self }
    }
}

/// A device that fetches when it is told to, and never otherwise.
final class NodesClient: @unchecked Sendable {
    // Unchecked: used only on the simulation's thread.
    unowned let world: NodesSimulation
    let number: Int
    var user: Int { number / 2 }
    let name: String
    /// Whether it uses long polls in place of a socket.
    let polls: Bool
    var session: (token: String, id: Session.ID)?
    /// The node to which its socket or its polls go.
    var node: Int
    private(set) var socket: ClientSocket?
    /// The address of its polls.
    private var pollAddress: String?
    /// Distinguishes the present polls from those of an earlier node or session.
    private(set) var pollRun = 0
    private(set) var isPolling = false
    /// Since when it must learn of every change; `nil` if it need not.
    var learnsSince: Duration?
    /// The records it knows, as paths of owner, zone and name.
    var known: Set<String> = []
    private var tokens: [String: String] = [:]
    private var isFetching = false
    private var mustFetch = false

    init(_ number: Int, in world: NodesSimulation) {
        self.number = number
        self.world = world
        name = "client\(number)"
        polls = number == 3
        node = number % 2
    }

    var isListening: Bool { socket != nil || isPolling }

    // MARK: Connections

    /// Connects to the client's node; later if it is not alive.
    func connect() {
        guard session != nil, !isListening else { return }
        guard let alive = world.node(node) ?? world.node(1 - node) else { return reconnect() }
        node = alive.number
        if polls { return startPolls() }
        guard let token = session?.token else { return }
        let socket = ClientSocket(self, to: alive)
        self.socket = socket
        alive.queue.run { [world] in socket.open(token, world.home) }
    }

    private func reconnect() { world.timeline.after(.seconds(1)) { [weak self] in self?.connect() } }

    func disconnect() {
        learnsSince = nil
        pollRun += 1
        isPolling = false
        pollAddress = nil
        socket?.abort()
        socket = nil
    }

    func received(_ frame: ServerFrame, on socket: ClientSocket) {
        guard socket === self.socket else { return }
        switch frame {
        case .ready:
            world.learns(self)
            fetch()
        case .notice: fetch()
        case .renewed, .goodbye, .pong, .unknown: break
        }
    }

    func closed(_ socket: ClientSocket) {
        guard socket === self.socket else { return }
        disconnect()
        reconnect()
    }

    /// The client's node has been killed.
    func nodeEnded() {
        disconnect()
        reconnect()
    }

    private func startPolls() {
        isPolling = true
        let run = pollRun
        world.ask("tokens/create", of: self, at: node, "{}", root: "device") { [self] answer in
            guard run == pollRun else { return }
            guard let answer, let url = try? JSONDocument(parsing: answer.body).root["webcourierURL"]?.string(),
                let start = url.firstRange(of: "/device/")?.lowerBound
            else {
                disconnect()
                return reconnect()
            }
            pollAddress = String(url[start...])
            world.learns(self)
            fetch()
            poll(run)
        }
    }

    private func poll(_ run: Int) {
        guard let pollAddress, let alive = world.node(node) else { return }
        world.poll(pollAddress, at: alive) { [self] answer in
            guard run == pollRun else { return }
            guard answer.status == .ok else {
                disconnect()
                return reconnect()
            }
            if !answer.body.isEmpty { fetch() }
            poll(run)
        }
    }

    // MARK: Fetching

    func fetch() {
        guard session != nil else { return }
        mustFetch = isFetching
        guard !isFetching else { return }
        isFetching = true
        fetch("private", ["Z0", "Z1"].map { (world.users[user], $0) }) { [self] isDone in
            guard isDone, user == 1 else { return fetched(isDone) }
            fetch("shared", [(world.users[0], "Z0")]) { self.fetched($0) }
        }
    }

    private func fetched(_ isDone: Bool) {
        isFetching = false
        guard isDone else {
            world.timeline.after(.seconds(1)) { [weak self] in self?.fetch() }
            return
        }
        if mustFetch { fetch() }
    }

    private func fetch(
        _ scope: String,
        _ zones: [(owner: String, name: String)],
        then: @escaping @Sendable (Bool) -> Void
    ) {
        let parts = zones.map { zone in
            let token = tokens["\(zone.owner)/\(zone.name)"].map { #","syncToken":"\#($0)""# } ?? ""
            return #"{"zoneID":{"zoneName":"\#(zone.name)","ownerRecordName":"\#(zone.owner)"}\#(token)}"#
        }
        let saved = world.saved.count
        let body = #"{"zones":[\#(parts.joined(separator: ","))]}"#
        world.ask("\(scope)/changes/zone", of: self, at: nil, body) { [self] answer in
            guard let answer, answer.status == .ok, let pages = try? read(answer.body, zones, saved) else {
                return then(false)
            }
            if pages.contains(true) { fetch(scope, zones, then: then) } else { then(true) }
        }
    }

    /// Applies an answer; returns for each zone whether more is to come.
    private func read(_ body: [UInt8], _ zones: [(owner: String, name: String)], _ saved: Int) throws -> [Bool] {
        let pages = try JSONDocument(parsing: body).root.required("zones").elements()
        return try zip(zones, pages).map { zone, page in
            let place = "\(zone.owner)/\(zone.name)"
            for record in try page.required("records").elements() {
                known.insert("\(place)/\(try record.required("recordName").string())")
            }
            tokens[place] = try page.required("syncToken").string()
            let hasMore = try page.required("moreComing").bool()
            if !hasMore {
                for record in world.saved.prefix(saved) where record.hasPrefix(place + "/") && !known.contains(record) {
                    world.report("b", "\(name) has a token that covers \(record), which it did not get")
                }
            }
            return hasMore
        }
    }
}
