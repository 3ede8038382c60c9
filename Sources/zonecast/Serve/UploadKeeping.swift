import RelayAPI
import ServiceLifecycle

/// Deletes expired partial uploads every minute.
struct UploadKeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil { relay.dropEndedUploads() }
        }
    }
}
