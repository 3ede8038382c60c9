import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import RelayAPI

/// An accepted connection: its gate, and the executor of its loop.
struct GatedConnection: ServerChildChannelValue {
    let channel: any Channel
    let gate: NIOLoopBound<ConnectionGate>
    let executor: LoopExecutor
}

/// The gate as Hummingbird's server sees it: what it puts on a new connection, and the task that serves it.
struct GateChannel: ServerChildChannel {
    /// By the identity of the loop.
    let loops: [ObjectIdentifier: NIOLoopBound<LoopState>]
    let door: GateDoor

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<GatedConnection> {
        channel.eventLoop.makeCompletedFuture {
            guard let loop = loops[ObjectIdentifier(channel.eventLoop)]?.value else {
                preconditionFailure("A connection came up on a loop that is not the server's.")
            }
            let peer = channel.remoteAddress?.ipAddress ?? "unknown"
            let verdict = door.counts.joined(peer)
            let counts = door.counts
            channel.closeFuture.whenComplete { _ in counts.left(peer) }
            if verdict == .farTooMany { throw Refusal.tooManyConnections }
            try Self.spareMemory(channel)
            let decoder = RequestDecoder(limits: door.limits)
            let handler = ByteToMessageHandler(decoder)
            let gate = ConnectionGate(loop: loop, peer: peer, decoder: decoder, handler: handler)
            if verdict == .tooMany { gate.turnAway() }
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(handler)
            try pipeline.addHandler(gate)
            return GatedConnection(
                channel: channel,
                gate: NIOLoopBound(gate, eventLoop: channel.eventLoop),
                executor: loop.executor
            )
        }
    }

    /// A channel keeps each buffer that it has read into: one, and a small one, is enough for an idle socket.
    ///
    /// It grows with the reads of a busy connection.
    private static func spareMemory(_ channel: any Channel) throws {
        guard let options = channel.syncOptions else { return }
        try options.setOption(.maxMessagesPerRead, value: 1)
        try options.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65_536)
        )
    }

    func handle(value: GatedConnection, logger: Logger) async {
        await withTaskExecutorPreference(value.executor) {
            await withTaskCancellationHandler {
                await serve(value.gate.value)
            } onCancel: {
                value.channel.close(promise: nil)
            }
        }
    }

    private func serve(_ gate: ConnectionGate) async {
        while let work = await gate.next() {
            switch work {
            case .request(let request): gate.answer(await door.respond(request))
            case .socket(let connection): return await connection.admit()
            }
        }
    }
}
