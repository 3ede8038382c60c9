import Logging
import NIOCore
import NIOPosix
import RelayServer
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@Suite struct AcceptPauseTests {
    /// Returns, for each of two faults, whether the port still accepts connections right after it; then waits until it
    /// accepts one.
    private func acceptsConnections(after fault: CInt, _ lines: LogLines) async throws -> [Bool] {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let port = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptPause(lines.logger))
                }
            }
            .childChannelInitializer { channel in channel.eventLoop.makeCompletedFuture { _ = arrival.yield() } }
            .bind(host: "127.0.0.1", port: 0).get()
        var iterator = arrivals.makeAsyncIterator()
        var results: [Bool] = []
        for _ in 1...2 {
            results.append(
                try await port.eventLoop.submit {
                    port.pipeline.fireErrorCaught(IOError(errnoCode: fault, reason: "accept"))
                    return try port.syncOptions?.getOption(.autoRead) ?? true
                }.get()
            )
            let peer = try await RawPeer.connect(port: port.localAddress?.port ?? 0)
            _ = await iterator.next()
            await peer.close()
        }
        try await port.close()
        return results
    }

    @Test func acceptingPausesWhenDescriptorsRunOut() async throws {
        let lines = LogLines()
        #expect(try await acceptsConnections(after: EMFILE, lines) == [false, false])
        #expect(lines.count == 1)
    }

    @Test func acceptingContinuesAfterOtherFaults() async throws {
        let lines = LogLines()
        #expect(try await acceptsConnections(after: ECONNABORTED, lines) == [true, true])
        #expect(lines.count == 0)
    }
}
