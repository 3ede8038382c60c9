import Logging
import NIOCore
import NIOSSL
import Synchronization

/// TLS of a running server: what new connections use, renewed when the files change.
///
/// Connections that are open keep what they began with, so a renewal cuts nobody off.
final class ServerTLS: Sendable {
    private struct State {
        var context: NIOSSLContext
        var mark: TLSFiles.Mark
    }

    private let files: TLSFiles
    private let state: Mutex<State>

    init(_ files: TLSFiles) throws(TLSFault) {
        self.files = files
        // The mark first: files that change while they are read are read once more.
        let mark = TLSFiles.Mark(files)
        state = Mutex(State(context: try Self.context(of: files), mark: mark))
    }

    /// Puts TLS on a new connection.
    func secure(_ channel: any Channel) throws {
        let handler = NIOSSLServerHandler(context: state.withLock { $0.context })
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Looks at the files every so often until the task is cancelled.
    ///
    /// Files that cannot be used, as in the middle of a renewal, leave what there is in its place.
    func watch(every interval: Duration, _ logger: Logger) async {
        while (try? await Task.sleep(for: interval)) != nil {
            let mark = TLSFiles.Mark(files)
            guard mark != state.withLock({ $0.mark }) else { continue }
            do {
                let context = try Self.context(of: files)
                state.withLock { $0 = State(context: context, mark: mark) }
                logger.info("The TLS certificate is read anew.")
            } catch {
                state.withLock { $0.mark = mark }
                logger.error("The TLS files have changed and are not used: \(error)")
            }
        }
    }

    static func context(of files: TLSFiles) throws(TLSFault) -> NIOSSLContext {
        let certificates: [NIOSSLCertificate]
        let key: NIOSSLPrivateKey
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(files.certificates)
        } catch {
            throw TLSFault(description: "\(files.certificates) is no readable PEM file with certificates (tls-cert).")
        }
        guard !certificates.isEmpty else {
            throw TLSFault(description: "\(files.certificates) holds no certificate (tls-cert).")
        }
        do {
            key = try NIOSSLPrivateKey(file: files.key, format: .pem)
        } catch {
            throw TLSFault(description: "\(files.key) is no readable PEM file with a private key (tls-key).")
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(key)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        // A peer that has vanished never answers the end of the session, and a stop waits for it.
        configuration.shutdownTimeout = .seconds(1)
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw TLSFault(
                description: "\(files.key) is not the key of the first certificate in \(files.certificates)."
            )
        }
    }
}
