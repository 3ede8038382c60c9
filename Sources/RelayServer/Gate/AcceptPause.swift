import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Stands on the port: when the system has no descriptor, or no memory, for one more connection, asks for none for a while.
///
/// The connection stays in the backlog, and the port readable: to ask again at once would be to ask without end. Not NIO's
/// `AcceptBackoffHandler`, which only holds reads back: one is pending still after the fault, so that the loop goes on.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = any Channel

    /// Long enough to cost nothing, short enough not to be noticed once there is room again.
    private static let length = TimeAmount.milliseconds(100)

    private let logger: Logger
    private let onShortage: @Sendable () -> Void
    private var isSaid = false

    /// `onShortage`: has others let go of what they can do without.
    init(_ logger: Logger, onShortage: @escaping @Sendable () -> Void = {}) {
        self.logger = logger
        self.onShortage = onShortage
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let fault = error as? IOError, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(fault.errnoCode) else {
            return context.fireErrorCaught(error)
        }
        let channel = context.channel
        try? channel.syncOptions?.setOption(.autoRead, value: false)
        channel.eventLoop.scheduleTask(in: Self.length) { _ = channel.setOption(.autoRead, value: true) }
        if fault.errnoCode == EMFILE || fault.errnoCode == ENFILE { onShortage() }
        guard !isSaid else { return }
        isSaid = true
        logger.error(
            "No more connections can be accepted for now. Raise the limit of open files or lower limits.connections.",
            error: error
        )
    }
}
