import RelayAPI
import ServiceLifecycle

/// Drops every minute what is left of uploads that broke off and whose time is over.
struct UploadKeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil { relay.dropEndedUploads() }
        }
    }
}
