import NIOCore
import NIOPosix

extension ListenError {
    /// Listens briefly with these settings; returns the error, or `nil` on success.
    package static func ofTrying(_ configuration: ServerConfiguration) async -> ListenError? {
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .bind(host: configuration.host, port: configuration.port).get()
            try? await channel.close().get()
            return nil
        } catch {
            return ListenError(error, configuration: configuration)
        }
    }
}
