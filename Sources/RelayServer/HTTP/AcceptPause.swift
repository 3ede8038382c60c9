package import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Pauses accepting connections when the system has no descriptor or memory for another one.
///
/// The connection stays in the backlog and the listening socket readable, so accepting again at once would spin. NIO's
/// `AcceptBackoffHandler` only holds back reads; one is still pending after the error, so the event loop would spin
/// anyway.
package final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = any Channel

    /// Long enough to cost nothing, and short enough not to be noticed once resources are available again.
    private static let length = TimeAmount.milliseconds(100)

    private let logger: Logger
    private let onShortage: @Sendable () -> Void
    private var isLogged = false

    /// `onShortage` should release descriptors that are not needed.
    package init(_ logger: Logger, onShortage: @escaping @Sendable () -> Void = {}) {
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
        guard !isLogged else { return }
        isLogged = true
        logger.error(
            "No more connections can be accepted for now. Raise the limit of open files or lower limits.connections.",
            error: error
        )
    }
}
