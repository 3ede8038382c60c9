package import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Wire
import ZoneTesting

/// One run with two relays over one store and an unreliable bus between them, all derived from one seed.
///
/// Runs on the caller's thread only. Judges that connected clients learn of every change within 15 s, that tokens cover what
/// they claim, that one node sends a device's pushes, that revoked sessions end, and that both nodes see a new schema.
package final class NodesSimulation: @unchecked Sendable {
    // Unchecked: everything runs on the thread that calls `run`.

    static let clientCount = 6
    /// The time within which a change must be known everywhere.
    private static let bound = Duration.seconds(15)
    /// The time within which a node that has ended is no longer considered alive.
    private static let lease = Duration.seconds(5)

    let clock = TestClock()
    let timeline: Timeline
    let random: SeededRandom
    let executor: DeterministicExecutor
    let place: any TestHome
    let home: ContainerEnvironment
    let stores: any ServedStores
    let store: any Store
    let bus: SimulatedNoticeBus
    private var nodes: [SimulatedNode?] = [nil, nil]
    private var killed: [SimulatedNode] = []
    private var isOver = false
    private var clients: [NodesClient] = []
    private let steps: [NodesStep]
    private let seed: UInt64
    /// The record names of the users.
    private(set) var users: [String] = []
    private var accounts: [Account.ID] = []
    private var isSubscribed = [false, false, false]
    /// The renewals of each user's subscription that have not ended; one may delete what another has created.
    private var renewals = [0, 0, 0]
    /// The node whose write is being committed.
    var writer = 0
    private var runs: UInt64 = 0
    /// The records whose saves were confirmed, in that order, as paths of owner, zone and name.
    private(set) var saved: [String] = []
    /// The added record types, and when.
    private var types: [(name: String, time: Duration)] = []
    /// Since when the nodes agree on which of them are alive.
    private var liveSince = Duration.zero
    /// The node that has sent pushes to a device since then.
    private var pusher: [String: Int] = [:]
    private var lastPush: [String: Duration] = [:]
    private var trace: [String] = []
    private var violations: [String] = []
    private var fingerprint = Fingerprint(of: "")
    private var requests = 0
    private var commits = 0
    private var recordCount = 0

    /// - Parameters:
    ///   - seed: Decides everything except the steps.
    ///   - steps: The seed's steps, or some of them.
    ///   - place: A folder for files, preferably in memory.
    /// - Throws: Errors of SQLite and the file system.
    package init(seed: UInt64, steps: [NodesStep], home place: URL) throws {
        self.seed = seed
        self.steps = steps
        timeline = Timeline(clock)
        random = SeededRandom(seed: seed &* 31 &+ 11)
        let order = SeededRandom(seed: seed &+ 0x5EED)
        executor = DeterministicExecutor { count in Int(order.number() % UInt64(count)) }
        self.place = TestStore.current.makeHome(.lasting, in: place.path)
        guard let container = ContainerID("iCloud.nodes") else { preconditionFailure("a good name") }
        home = ContainerEnvironment(container, .production)
        let listener = Listener()
        // In memory, unlike the accounts.
        stores = TestStore.current.makeHome(in: place.path).stores(
            TestStoreOptions(
                draw: { [random] in random.number() },
                committed: { listener.simulation?.committed($1) },
                scheduler: { $0() }
            )
        )
        store = try stores.store(of: home)
        bus = SimulatedNoticeBus(timeline, random) { listener.simulation?.nodes.compactMap { $0 } ?? [] }
        listener.simulation = self
    }

    private final class Listener: @unchecked Sendable {
        // Unchecked: used only on the simulation's thread.
        weak var simulation: NodesSimulation?
    }

    package func run() -> Simulation.Outcome {
        defer { dismantle() }
        begin()
        for step in steps where violations.isEmpty {
            advance(by: .milliseconds(step.pause))
            note("step \(step)")
            perform(step)
        }
        if violations.isEmpty { end() }
        return Simulation.Outcome(
            violations: violations,
            trace: trace,
            fingerprint: fingerprint.sum,
            simulated: clock.now.offset,
            requests: requests,
            commits: commits,
            workItems: executor.count
        )
    }

    /// Lets all tasks end, those of killed nodes too, since a task that never resumes keeps files open.
    private func dismantle() {
        isOver = true
        // A client and its socket keep each other and the node.
        for client in clients { client.disconnect() }
        for node in nodes.compactMap({ $0 }) { node.stop() }
        for node in killed { executor.wake(node.process) }
        runReady()
        (nodes, killed) = ([nil, nil], [])
        timeline.removeAll()
    }

    func report(_ invariant: Character, _ text: String) {
        guard !isOver else { return }
        let line = "invariant \(invariant): \(text), at \(clock.now.offset)"
        note(line)
        violations.append(line)
    }

    private func note(_ line: String) {
        trace.append("\(clock.now.offset) \(line)")
        fingerprint.add(trace[trace.count - 1])
    }

    private func number(_ range: ClosedRange<Int>) -> Int {
        var generator = random.generator
        return Int.random(in: range, using: &generator)
    }

    /// The time that something takes between a client and a node.
    var delay: Duration { .milliseconds(number(1...40)) }

    func node(_ number: Int) -> SimulatedNode? { nodes[number] }

    // MARK: Time

    private func advance(by duration: Duration) {
        let end = clock.now.offset + duration
        runReady()
        while violations.isEmpty {
            let next = [clock.nextDeadline?.offset, timeline.nextTime].compactMap { $0 }.min() ?? end
            guard next < end else { break }
            clock.advance(by: max(.zero, next - clock.now.offset))
            runReady()
        }
        clock.advance(by: max(.zero, end - clock.now.offset))
        runReady()
    }

    private func runReady() {
        repeat {
            if !executor.runReady(limit: 100_000) { report("l", "100000 work items ran without clock progress") }
            timeline.run()
        } while !executor.isIdle
    }

    /// Calls a node every second.
    private func keepTicking(_ node: SimulatedNode) {
        timeline.after(.seconds(1)) { [self] in
            guard nodes[node.number] === node else { return }
            node.tick()
            keepTicking(node)
        }
    }

    // MARK: Nodes

    private func start(_ number: Int) {
        guard nodes[number] == nil else { return }
        runs += 1
        do {
            let node = try SimulatedNode(number, run: runs, in: self)
            nodes[number] = node
            timeline.after(.milliseconds(self.number(1...1_000))) { [self] in keepTicking(node) }
            membershipChanged()
        } catch {
            report("k", "node \(number) does not start: \(error)")
        }
    }

    private func kill(_ number: Int, for seconds: Int) {
        guard let node = nodes[number] else { return }
        note("node \(number) is killed")
        nodes[number] = nil
        killed.append(node)
        node.stop()
        // Nothing of it runs any more.
        executor.sleep(node.process)
        clients.filter { $0.node == number && $0.isListening }.forEach { $0.nodeEnded() }
        timeline.after(Self.lease) { [self] in membershipChanged() }
        timeline.after(.seconds(seconds)) { [self] in start(number) }
    }

    private func membershipChanged() {
        let live = nodes.compactMap { $0 }
        for node in live { node.bus.nodesChanged(to: Set(live.map(\.id))) }
        liveSince = timeline.now
        pusher = [:]
    }

    private func committed(_ commit: Commit) {
        commits += 1
        guard let node = nodes[writer] else { return }
        guard !node.diesAtCommit else { return kill(writer, for: number(2...20)) }
        node.notices.publish(commit, of: home)
    }

    func pushed(to device: String, by node: Int) {
        guard !isOver else { return }
        note("push to \(device) by node \(node)")
        lastPush[device] = timeline.now
        // Until then, a push may be of a notice from before the change.
        guard timeline.now - liveSince > Self.bound else { return }
        if let other = pusher.updateValue(node, forKey: device), other != node {
            report("e", "nodes \(other) and \(node) both send pushes to \(device)")
        }
    }

    // MARK: Requests

    private final class Waiter: @unchecked Sendable {
        // Unchecked: used only on the simulation's thread.
        var then: (@Sendable (APIResponse?) -> Void)?

        init(_ then: @escaping @Sendable (APIResponse?) -> Void) { self.then = then }

        func answer(_ answer: APIResponse?) {
            let then = then
            self.then = nil
            then?(answer)
        }
    }

    /// Sends a request of a client to a node, or to any; `nil` if there is no answer within a second.
    func ask(
        _ operation: String,
        of client: NodesClient,
        at number: Int?,
        _ body: String,
        root: String = "database",
        then: @escaping @Sendable (APIResponse?) -> Void
    ) {
        let waiter = Waiter(then)
        timeline.after(.seconds(1)) { waiter.answer(nil) }
        let chosen = number ?? self.number(0...1)
        guard let node = nodes[chosen] ?? (number == nil ? nodes[1 - chosen] : nil), let token = client.session?.token
        else { return }
        requests += 1
        let request = request(operation, token, from: client.name, body, root: root)
        Task(executorPreference: node.process) { [self] in
            let answer = await node.relay.respond(to: request)
            timeline.after(delay) { waiter.answer(answer) }
        }
    }

    private func request(
        _ operation: String,
        _ token: String,
        from device: String,
        _ body: String,
        root: String
    ) -> APIRequest {
        let escaped = token.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
        var request = APIRequest(
            method: .post,
            path: "/\(root)/1/\(home.container)/production/\(operation)",
            query: "ckWebAuthToken=\(escaped)",
            body: Array(body.utf8)
        )
        if let name = HTTPField.Name("X-Zonecast-Device-ID") { request.headers[name] = device }
        return request
    }

    /// Polls for a notice.
    func poll(_ address: String, at node: SimulatedNode, then: @escaping @Sendable (APIResponse) -> Void) {
        let parts = address.split(separator: "?", maxSplits: 1).map(String.init)
        let request = APIRequest(method: .get, path: parts[0], query: parts.last)
        Task(executorPreference: node.process) { [self] in
            let answer = await node.relay.respond(to: request)
            timeline.after(delay) { then(answer) }
        }
    }

    // MARK: Beginning

    private func begin() {
        var generator = SeededRandom(seed: seed ^ 0xB05).generator
        start(0)
        start(1)
        guard let first = nodes[0] else { return }
        do {
            try first.accounts.addContainer(home.container)
            for name in ["u0", "u1", "u2"] {
                let account = try first.accounts.devAccount(named: name)
                accounts.append(account.id)
                users.append(try first.accounts.user(of: account.id, in: home).recordName)
            }
            for user in users { try addPushDevice(of: user, in: first.accounts) }
            clients = (0..<Self.clientCount).map { NodesClient($0, in: self) }
            for client in clients { try signIn(client) }
        } catch {
            return report("k", "the accounts cannot be made: \(error)")
        }
        define("Note", at: first)
        advance(by: .seconds(11))
        for user in 0..<3 {
            for zone in ["Z0", "Z1"] {
                let body = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#
                prepare("private/zones/modify", user, body)
            }
            for scope in ["private", "shared"] {
                prepare("\(scope)/subscriptions/modify", user, Self.subscription("create"))
            }
            isSubscribed[user] = true
        }
        share()
        clients.forEach { $0.connect() }
        advance(by: .seconds(2))
        bus.drops = [0, 0.1, 0.4].randomElement(using: &generator) ?? 0
        bus.repeats = [0, 0.2].randomElement(using: &generator) ?? 0
        bus.maxDelay = [20, 500, 3_000].randomElement(using: &generator) ?? 20
        note("bus drops \(bus.drops), repeats \(bus.repeats), delays up to \(bus.maxDelay) ms")
    }

    private static func subscription(_ kind: String) -> String {
        #"{"operations":[{"operationType":"\#(kind)","subscription":{"subscriptionID":"all","#
            + #""subscriptionType":"database"}}]}"#
    }

    private func addPushDevice(of user: String, in accounts: any AccountDirectory) throws {
        let device = PushDevice(
            id: "push-\(user)",
            home: home,
            user: UserID(user),
            deviceID: "sleeping",
            session: nil,
            apiTokenHash: [],
            target: .fcm(token: user),
            registered: clock.timeSource.now()
        )
        _ = try accounts.addPushDevice(device, limit: 20)
    }

    private func signIn(_ client: NodesClient) throws {
        guard let node = nodes.compactMap({ $0 }).first else { return }
        let started = try SignIn.start(
            for: accounts[client.user],
            in: home,
            kind: .kept,
            directory: node.accounts,
            time: clock.timeSource,
            random: RandomSource { [random] in random.bytes($0) }
        )
        client.session = (started.webToken, started.session)
    }

    /// Sends a request of a user at the beginning, when nothing fails, and returns the answer.
    @discardableResult
    private func prepare(_ operation: String, _ user: Int, _ body: String) -> APIResponse? {
        let box = Box()
        ask(operation, of: clients[user * 2], at: 0, body) { box.answer = $0 }
        advance(by: .milliseconds(100))
        if box.answer?.status != .ok {
            report("k", "\(operation) fails: \(box.answer.map { String(decoding: $0.body, as: UTF8.self) } ?? "")")
        }
        return box.answer
    }

    private final class Box: @unchecked Sendable {
        // Unchecked: used only on the simulation's thread.
        var answer: APIResponse?
    }

    /// The first user shares a zone with the second one.
    private func share() {
        let body =
            #"{"zoneID":{"zoneName":"Z0"},"operations":[{"operationType":"create","record":{"recordName":"#
            + #""cloudkit.zoneshare","recordType":"cloudkit.share","publicPermission":"READ_WRITE","fields":{}}}]}"#
        let answer = prepare("private/records/modify", 0, body)
        let records = try? answer.map { try JSONDocument(parsing: $0.body).root.required("records").elements() }
        guard let link = try? records?.first?.required("shortGUID").string() else {
            return report("k", "the zone cannot be shared")
        }
        prepare("public/records/accept", 1, #"{"shortGUIDs":[{"value":"\#(link)"}]}"#)
    }

    // MARK: Steps

    private func perform(_ step: NodesStep) {
        switch step.action {
        case .save(let client, let zone): save(clients[client], "private", clients[client].user, "Z\(zone)")
        case .saveShared(let client):
            save(clients[client], clients[client].user == 0 ? "private" : "shared", 0, "Z0")
        case .move(let client, let node):
            clients[client].disconnect()
            clients[client].node = node
            clients[client].connect()
        case .renewSubscription(let user, let node): renewSubscription(of: user, node)
        case .alterSchema(let number): if let node = nodes[number] { define("T\(step.number)", at: node) }
        case .revoke(let client, let number): if let node = nodes[number] { revoke(clients[client], at: node) }
        case .cutBus(let seconds): cutBus(seconds)
        case .kill(let number, let atCommit, let seconds):
            if atCommit { nodes[number]?.diesAtCommit = true } else { kill(number, for: seconds) }
        }
    }

    /// A client that is connected must learn of every later change, if its user has a subscription.
    func learns(_ client: NodesClient) {
        client.learnsSince = isSubscribed[client.user] ? timeline.now : nil
    }

    private func save(_ client: NodesClient, _ scope: String, _ owner: Int, _ zone: String, type: String = "Note") {
        recordCount += 1
        let (name, sent) = ("r\(recordCount)", timeline.now)
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)","ownerRecordName":"\#(users[owner])"},"operations":[{"operationType":"create","#
            + #""record":{"recordName":"\#(name)","recordType":"\#(type)","fields":{"v":{"value":"x"}}}}]}"#
        ask("\(scope)/records/modify", of: client, at: nil, body) { [self] answer in
            guard let answer, answer.status == .ok,
                let record = try? JSONDocument(parsing: answer.body).root.required("records").elements().first
            else { return }
            guard !record.hasMember("serverErrorCode") else {
                return report("a", "\(name) is refused: \(String(decoding: answer.body, as: UTF8.self))")
            }
            let path = "\(users[owner])/\(zone)/\(name)"
            note("\(path) saved by \(client.name)")
            client.known.insert(path)
            saved.append(path)
            mustBeLearned(path, owner, zone, since: sent)
        }
    }

    private func mustBeLearned(_ path: String, _ owner: Int, _ zone: String, since sent: Duration) {
        let viewers = clients.filter { $0.user == owner || (owner == 0 && $0.user == 1 && zone == "Z0") }
        let due = viewers.compactMap { client in
            client.learnsSince.flatMap { $0 <= sent ? (client, $0) : nil }
        }
        timeline.after(Self.bound) { [self] in
            for (client, since) in due where client.learnsSince == since && !client.known.contains(path) {
                report("e", "\(client.name), connected to node \(client.node), has not learned of \(path) within 15 s")
            }
        }
    }

    private func renewSubscription(of user: Int, _ number: Int) {
        renewals[user] += 1
        isSubscribed[user] = false
        clients.filter { $0.user == user }.forEach { $0.learnsSince = nil }
        change("delete", user, number)
    }

    /// Deletes a user's subscription through one node, and then creates it through the other one.
    private func change(_ kind: String, _ user: Int, _ number: Int) {
        let client = clients[user * 2]
        ask("private/subscriptions/modify", of: client, at: number, Self.subscription(kind)) { [self] answer in
            guard answer?.status == .ok else {
                return timeline.after(.seconds(1)) { self.change(kind, user, 1 - number) }
            }
            note("subscription of user \(user): \(kind)")
            if kind == "delete" {
                timeline.after(.milliseconds(self.number(1...4_000))) { self.change("create", user, 1 - number) }
            } else {
                renewals[user] -= 1
                guard renewals[user] == 0 else { return }
                isSubscribed[user] = true
                clients.filter { $0.user == user && $0.isListening }.forEach { learns($0) }
            }
        }
    }

    private func define(_ name: String, at node: SimulatedNode) {
        let type = RecordType(fields: ["v": RecordType.Field(.scalar(.string))])
        node.store.write(touching: Zone.publicOwner, { writer throws(RelayError) in try writer.define([name: type]) }) {
            [self] result in
            guard case .success = result else { return }
            note("type \(name) is defined")
            timeline.after(Self.bound) { self.mustKnow(name) }
        }
    }

    /// The schema with which each node reads requests must have the type.
    private func mustKnow(_ type: String) {
        for node in nodes.compactMap({ $0 }) where node.store.currentSchema.types[type] == nil {
            report("e", "node \(node.number) does not know the type \(type) within 15 s")
        }
    }

    private func revoke(_ client: NodesClient, at node: SimulatedNode) {
        guard let session = client.session, (try? node.accounts.revokeSession(session.id)) != nil else { return }
        client.learnsSince = nil
        let socket = client.socket
        let polls = client.isPolling ? client.pollRun : nil
        timeline.after(.seconds(3)) { [self] in
            for node in nodes.compactMap({ $0 }) { mustRefuse(session.token, client, node) }
        }
        timeline.after(.seconds(5)) { [self] in
            if let socket, socket.isOpen {
                report("j", "\(client.name) keeps its socket after its session was revoked")
            }
            if client.isPolling, client.pollRun == polls {
                report("j", "\(client.name) keeps its poll after its session was revoked")
            }
        }
        timeline.after(.seconds(7)) { [self] in
            client.disconnect()
            signInAgain(client)
        }
    }

    private func signInAgain(_ client: NodesClient) {
        client.session = nil
        try? signIn(client)
        client.connect()
        if client.session == nil { timeline.after(.seconds(1)) { self.signInAgain(client) } }
    }

    private func mustRefuse(_ token: String, _ client: NodesClient, _ node: SimulatedNode) {
        let request = request("private/zones/list", token, from: client.name, "{}", root: "database")
        Task(executorPreference: node.process) { [self] in
            let answer = await node.relay.respond(to: request)
            if answer.status == .ok {
                report("j", "node \(node.number) serves \(client.name) after its session was revoked")
            }
        }
    }

    private func cutBus(_ seconds: Int) {
        guard !bus.isCut else { return }
        bus.isCut = true
        timeline.after(.seconds(seconds)) { [self] in
            bus.isCut = false
            for node in nodes.compactMap({ $0 }) { node.queue.run { node.sweep.sweep() } }
        }
    }

    // MARK: End

    /// Without faults, everything becomes known everywhere.
    private func end() {
        advance(by: .seconds(40))
        (bus.drops, bus.repeats, bus.maxDelay, bus.isCut) = (0, 0, 20, false)
        for node in 0...1 { start(node) }
        nodes.forEach { $0?.diesAtCommit = false }
        advance(by: .seconds(30))
        let last = timeline.now
        for client in clients where client.number.isMultiple(of: 2) {
            save(client, "private", client.user, "Z0")
        }
        advance(by: .seconds(30))
        for client in clients where violations.isEmpty {
            if client.learnsSince == nil { report("e", "\(client.name) is not connected at the end") }
            for path in saved where client.isListening && !client.known.contains(path) && mustSee(client, path) {
                report("b", "\(client.name) does not have \(path) at the end")
            }
        }
        for user in users where violations.isEmpty && lastPush[user] ?? .zero < last {
            report("e", "no push was sent to the device of \(user)")
        }
    }

    private func mustSee(_ client: NodesClient, _ path: String) -> Bool {
        path.hasPrefix(users[client.user] + "/") || (client.user == 1 && path.hasPrefix("\(users[0])/Z0/"))
    }
}
