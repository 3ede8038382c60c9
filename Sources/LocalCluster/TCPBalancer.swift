package import NIOCore
import NIOPosix
import Synchronization

/// Forwards TCP connections to one of several targets on this machine.
///
/// A new connection goes to the target with the fewest. The caller says which targets are up; the connections to one that
/// is not are closed, as ordinary balancers do it, so that clients turn to another target.
package final class TCPBalancer: Sendable {
    /// A program that listens on 127.0.0.1.
    package struct Target: Hashable, Sendable {
        package var name: String
        package var port: Int

        package init(name: String, port: Int) {
            self.name = name
            self.port = port
        }
    }

    private struct State {
        var targets: [Target] = []
        var connections: [ObjectIdentifier: ForwardedConnection] = [:]
        var isCut = false
        var listener: (any Channel)?
    }

    private let state = Mutex(State())
    private let group: any EventLoopGroup

    /// How long a target may take to accept a connection.
    private static let connectTimeout = TimeAmount.seconds(2)

    package init(on group: any EventLoopGroup) { self.group = group }

    /// Listens on an address; returns its port, which the system chooses for port 0.
    package func listen(host: String, port: Int) async throws -> Int {
        let channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1_024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { [self] channel in
                let connection = ForwardedConnection(self)
                return channel.pipeline.addHandler(connection.incoming).map {
                    self.state.withLock { $0.connections[ObjectIdentifier(connection)] = connection }
                    channel.closeFuture.whenComplete { _ in self.forget(connection) }
                    self.connect(connection, on: channel, without: [])
                }
            }
            .bind(host: host, port: port).get()
        state.withLock { $0.listener = channel }
        return channel.localAddress?.port ?? port
    }

    package func stop() async {
        let (listener, connections) = state.withLock { ($0.listener, Array($0.connections.values)) }
        try? await listener?.close()
        for connection in connections { connection.close() }
    }

    /// The targets that are up.
    package var targets: [Target] {
        get { state.withLock { $0.targets } }
        set {
            let lost = state.withLock { state in
                state.targets = newValue
                return state.connections.values.filter { $0.target.map { !newValue.contains($0) } ?? false }
            }
            for connection in lost { connection.close() }
        }
    }

    /// The number of connections of each target.
    package var connections: [String: Int] {
        state.withLock { state in
            state.connections.values.reduce(into: [:]) { if let name = $1.target?.name { $0[name, default: 0] += 1 } }
        }
    }

    /// Whether nothing passes in either direction, as when a network cable is pulled: connections stay open.
    package var isCut: Bool {
        get { state.withLock { $0.isCut } }
        set {
            let connections = state.withLock { state in
                state.isCut = newValue
                return Array(state.connections.values)
            }
            if !newValue { for connection in connections { connection.resume() } }
        }
    }

    private func forget(_ connection: ForwardedConnection) {
        state.withLock { $0.connections[ObjectIdentifier(connection)] = nil }
    }

    private func connect(_ connection: ForwardedConnection, on incoming: any Channel, without failed: Set<Target>) {
        let target: Target? = state.withLock { state in
            let counts = state.connections.values.reduce(into: [Target: Int]()) { counts, each in
                if let target = each.target { counts[target, default: 0] += 1 }
            }
            let target = state.targets.filter { !failed.contains($0) }
                .min { counts[$0, default: 0] < counts[$1, default: 0] }
            connection.target = target
            return target
        }
        guard let target else { return incoming.close(promise: nil) }
        ClientBootstrap(group: incoming.eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .connectTimeout(Self.connectTimeout)
            .channelInitializer { $0.pipeline.addHandler(connection.outgoing) }
            .connect(host: "127.0.0.1", port: target.port)
            .whenComplete { [self] result in
                switch result {
                case .success(let outgoing):
                    // The client may have gone in the meantime, or not be active yet.
                    if connection.incoming.isClosed { outgoing.close(promise: nil) } else { connection.resume() }
                case .failure:
                    connection.renewOutgoing()
                    connect(connection, on: incoming, without: failed.union([target]))
                }
            }
    }
}

/// A connection from a client and the one to its target, on one event loop.
// Unchecked: the handlers are used on the event loop only, and `target` under the balancer's lock.
private final class ForwardedConnection: @unchecked Sendable {
    let incoming: HalfConnection
    private(set) var outgoing: HalfConnection
    private let balancer: TCPBalancer
    var target: TCPBalancer.Target?

    init(_ balancer: TCPBalancer) {
        self.balancer = balancer
        incoming = HalfConnection(balancer)
        outgoing = HalfConnection(balancer)
        (incoming.partner, outgoing.partner) = (outgoing, incoming)
    }

    /// Makes a new handler after a target did not accept.
    func renewOutgoing() {
        outgoing = HalfConnection(balancer)
        (incoming.partner, outgoing.partner) = (outgoing, incoming)
    }

    func resume() {
        incoming.onLoop { $0.resume() }
        outgoing.onLoop { $0.resume() }
    }

    func close() { incoming.onLoop { $0.closeNow() } }
}

/// One of the two sides; reads only what the other one can write.
// Unchecked: used on the event loop of both channels, except for `channel`, which is set once, under a lock.
private final class HalfConnection: ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    weak var partner: HalfConnection?
    private let balancer: TCPBalancer
    private let channel = Mutex<(any Channel)?>(nil)
    private var context: ChannelHandlerContext?
    private(set) var isClosed = false
    private var isReadPending = false
    /// What arrived after the cut, by a read from before it.
    private var held: ByteBuffer?
    private var isClosing = false

    init(_ balancer: TCPBalancer) { self.balancer = balancer }

    func onLoop(_ body: @escaping @Sendable (HalfConnection) -> Void) {
        guard let channel = channel.withLock({ $0 }) else { return }
        channel.eventLoop.execute { body(self) }
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        channel.withLock { $0 = context.channel }
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    private var mayRead: Bool {
        !balancer.isCut && partner?.context.map { $0.channel.isActive && $0.channel.isWritable } ?? false
    }

    func read(context: ChannelHandlerContext) {
        if mayRead { context.read() } else { isReadPending = true }
    }

    func resume() {
        if !balancer.isCut, let bytes = held {
            held = nil
            partner?.context?.writeAndFlush(NIOAny(bytes), promise: nil)
        }
        guard isReadPending, mayRead else { return }
        isReadPending = false
        context?.read()
    }

    /// The target's side may be connected first: a connection within the machine needs no wait, and the client's is
    /// registered by another event loop.
    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        partner?.resume()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard balancer.isCut else {
            partner?.context?.write(data, promise: nil)
            return
        }
        var bytes = unwrapInboundIn(data)
        if held?.writeBuffer(&bytes) == nil { held = bytes }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        partner?.context?.flush()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { partner?.resume() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isClosed = true
        partner?.closeAfterWriting()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// What was written before is sent first.
    private func closeAfterWriting() {
        guard let context, !isClosing else { return }
        isClosing = true
        context.writeAndFlush(NIOAny(context.channel.allocator.buffer(capacity: 0)))
            .whenComplete { [channel = context.channel] _ in channel.close(promise: nil) }
    }

    func closeNow() {
        context?.close(promise: nil)
        partner?.context?.close(promise: nil)
    }
}
