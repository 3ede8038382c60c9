import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Sends bytes directly to a channel's socket, bypassing the channel.
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

    /// Sends two separate buffers in one call.
    func send(_ first: UnsafeRawBufferPointer, then second: UnsafeRawBufferPointer) -> Int {
        withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { pieces in
            pieces.initializeElement(at: 0, to: iovec(first))
            pieces.initializeElement(at: 1, to: iovec(second))
            var message = msghdr()
            message.msg_iov = pieces.baseAddress
            message.msg_iovlen = 2
            return max(0, sendmsg(socket, &message, Self.flags))
        }
    }

    #if canImport(Darwin)
        private static let flags = MSG_DONTWAIT
    #else
        private static let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
    #endif
}

extension iovec {
    /// For sending only: the bytes are not modified.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
    }
}
