import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Sends a notice directly to a channel's socket, bypassing the channel.
///
/// Not through the channel, because that takes 12.4 to 14.4 µs of CPU for each notice of a commit to 10,000 sockets, and
/// this 9.8 to 11.2 µs (two cores, November 2026, row `notice-burst` of Tests/Benchmarks, which misses both its targets
/// without this). Responses go through the channel, where the difference could not be measured (row `write-64`).
///
/// Only for a channel without unsent bytes and without a handler that changes bytes, such as TLS. Must be discarded as
/// soon as the channel becomes inactive. Confined to the channel's event loop.
struct DirectSend {
    private let socket: NIOBSDSocket.Handle

    /// Returns `nil` if the channel has no socket, or has unsent bytes.
    init?(_ context: ChannelHandlerContext) {
        guard (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) == 0,
            let core = context.channel as? any NIOTransportAccessibleChannelCore, let socket = Self.socket(of: core)
        else { return nil }
        self.socket = socket
    }

    /// Avoids the pipeline's accessor, which tests for the transport and its type in one cast; that cast is looked up
    /// every time and costs about ten thousand instructions.
    private static func socket(of core: some NIOTransportAccessibleChannelCore) -> NIOBSDSocket.Handle? {
        try? core.withUnsafeTransport { $0 as? NIOBSDSocket.Handle }
    }

    /// Returns how many bytes the system accepted; 0 if it accepts none now, and after a failure.
    ///
    /// After a failure, the channel meets the error itself when it is given the remaining bytes.
    func send(_ bytes: ByteBuffer) -> Int { max(0, bytes.withUnsafeReadableBytes { send($0) }) }

    private func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.send(socket, bytes.baseAddress, bytes.count, Self.flags)
        #elseif canImport(Musl)
            Musl.send(socket, bytes.baseAddress, bytes.count, Self.flags)
        #else
            Darwin.send(socket, bytes.baseAddress, bytes.count, Self.flags)
        #endif
    }

    #if canImport(Darwin)
        private static let flags = MSG_DONTWAIT
    #else
        private static let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
    #endif
}
