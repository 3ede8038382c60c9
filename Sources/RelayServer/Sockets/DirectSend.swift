import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Gives bytes to a channel's socket without a way through the channel.
///
/// For a channel that has nothing unsent of its own while this is used, and nothing in its pipeline that changes bytes; to
/// be given up in the moment in which the channel says that it is inactive. Confined to the channel's loop.
struct DirectSend {
    private let socket: NIOBSDSocket.Handle

    /// `nil` where the channel has no socket, or has bytes of its own to send yet.
    init?(_ context: ChannelHandlerContext) {
        guard (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) == 0,
            let core = context.channel as? any NIOTransportAccessibleChannelCore, let socket = Self.socket(of: core)
        else { return nil }
        self.socket = socket
    }

    /// Not by the pipeline's own way, which asks for the kind of transport and its type in one cast: that is searched for
    /// each time, and takes as long as ten thousand instructions.
    private static func socket(of core: some NIOTransportAccessibleChannelCore) -> NIOBSDSocket.Handle? {
        try? core.withUnsafeTransport { $0 as? NIOBSDSocket.Handle }
    }

    /// How many of the bytes the system took; 0 where it takes none now, and after a failure, which the channel then meets
    /// itself when it is given the bytes.
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

    /// The same of two pieces that stand apart, in one call.
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
    /// For sending: what is there is not changed.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
    }
}
