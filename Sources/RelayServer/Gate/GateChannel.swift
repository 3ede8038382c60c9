import NIOCore
import NIOHTTP1
import RelayAPI

/// A connection with something to do for the first time: its gate, and the executor of its loop.
struct GatedConnection: Sendable {
    let channel: any Channel
    let gate: NIOLoopBound<ConnectionGate>
    let executor: LoopExecutor
}

/// What is put on a new connection, and the task that serves it.
struct GateChannel: Sendable {
    /// By the identity of the loop.
    let loops: [ObjectIdentifier: NIOLoopBound<LoopState>]
    let door: GateDoor
    /// `nil`: plain HTTP.
    let tls: ServerTLS?

    /// Runs on the connection's loop; throws where there are so many connections that one more is not even told so.
    func setUp(_ channel: any Channel) throws {
        guard let loop = loops[ObjectIdentifier(channel.eventLoop)]?.value else {
            preconditionFailure("A connection came up on a loop that is not the server's.")
        }
        let peer = channel.remoteAddress?.ipAddress ?? "unknown"
        let verdict = door.counts.joined(peer)
        let counts = door.counts
        channel.closeFuture.whenComplete { _ in counts.left(peer) }
        if verdict == .farTooMany { throw Refusal.tooManyConnections }
        // Not by the bootstrap, which for a single option makes an iterator and futures.
        try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        try Self.spareMemory(channel)
        let decoder = RequestDecoder(limits: door.limits)
        let handler = ByteToMessageHandler(decoder)
        try tls?.secure(channel)
        let gate = ConnectionGate(loop: loop, peer: peer, decoder: decoder, handler: handler, isSecure: tls != nil)
        if verdict == .tooMany { gate.turnAway() }
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(handler)
        try pipeline.addHandler(gate)
    }

    /// A channel keeps each buffer that it has read into: one, and a small one, is enough for an idle socket.
    ///
    /// It grows with the reads of a busy connection.
    static func spareMemory(_ channel: any Channel) throws {
        guard let options = channel.syncOptions else { return }
        try options.setOption(.maxMessagesPerRead, value: 1)
        try options.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65_536)
        )
    }

    /// Reads in large pieces while a body of many megabytes arrives: each piece is a turn of the loop and two of other
    /// threads.
    static func widen(_ channel: any Channel) {
        let allocator = AdaptiveRecvByteBufferAllocator(minimum: 65_536, initial: 262_144, maximum: 524_288)
        try? channel.syncOptions?.setOption(.recvAllocator, value: allocator)
    }

    /// Serves a connection until it is over, or has become a socket.
    func serve(_ connection: GatedConnection) async {
        await withTaskExecutorPreference(connection.executor) {
            await withTaskCancellationHandler {
                await serve(connection.gate.value)
            } onCancel: {
                connection.channel.close(promise: nil)
            }
        }
    }

    private func serve(_ gate: ConnectionGate) async {
        while let work = await gate.next() {
            switch work {
            case .request(let request) where request.isPoll: gate.answer(await poll(request, gate))
            case .request(let request): gate.answer(await door.respond(request))
            case .socket(let connection): return await connection.admit()
            }
        }
    }

    /// Ends a poll when its peer goes: a notice that came then would be handed to nobody, and be lost.
    private func poll(_ request: APIRequest, _ gate: ConnectionGate) async -> APIResponse {
        let answer = Task(executorPreference: gate.loop.executor) { await door.respond(request) }
        gate.onDeparture = { answer.cancel() }
        defer { gate.onDeparture = nil }
        return await withTaskCancellationHandler {
            await answer.value
        } onCancel: {
            answer.cancel()
        }
    }
}
