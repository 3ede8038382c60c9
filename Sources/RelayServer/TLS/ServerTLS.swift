package import Foundation
import Logging
import NIOCore
import NIOSSL
import RelayCore
import RelaySystem
import Synchronization
import Wire

/// The server's TLS context for new connections, replaced when the certificate files change.
///
/// Open connections keep their context, so a renewal closes none of them.
final class ServerTLS: Sendable {
    private struct State {
        var context: NIOSSLContext
        var version: TLSFiles.Version
    }

    private let files: TLSFiles
    private let state: Mutex<State>

    init(_ files: TLSFiles) throws(TLSFault) {
        self.files = files
        // The mark is taken first, so that files that change while they are read are read again.
        let version = TLSFiles.Version(files)
        state = Mutex(State(context: try Self.context(of: files), version: version))
    }

    /// Adds TLS to a new connection.
    func secure(_ channel: any Channel) throws {
        let handler = NIOSSLServerHandler(context: state.withLock { $0.context })
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Checks the files periodically until the task is cancelled.
    ///
    /// If the files cannot be used, for example in the middle of a renewal, the current context stays in use.
    func watch(every interval: Duration, _ logger: Logger) async {
        while (try? await Task.sleep(for: interval)) != nil {
            let version = TLSFiles.Version(files)
            guard version != state.withLock({ $0.version }) else { continue }
            do {
                let context = try Self.context(of: files)
                state.withLock { $0 = State(context: context, version: version) }
                logger.info("The TLS certificate was reloaded.")
            } catch {
                state.withLock { $0.version = version }
                logger.error("The changed TLS files cannot be used; the previous certificate stays in use: \(error)")
            }
        }
    }

    /// A file without a byte order mark at its beginning, which the library does not expect.
    static func bytes(_ path: String) throws -> [UInt8] {
        ByteOrderMark.dropped(from: [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))))
    }

    static func context(of files: TLSFiles) throws(TLSFault) -> NIOSSLContext {
        let certificates: [NIOSSLCertificate]
        let key: NIOSSLPrivateKey
        do {
            certificates = try NIOSSLCertificate.fromPEMBytes(try Self.bytes(files.certificates))
        } catch {
            throw TLSFault(description: "\(files.certificates) is not a readable PEM certificate file (tls-cert).")
        }
        guard !certificates.isEmpty else {
            throw TLSFault(description: "\(files.certificates) contains no certificate (tls-cert).")
        }
        do {
            key = try NIOSSLPrivateKey(bytes: try Self.bytes(files.key), format: .pem)
        } catch {
            throw TLSFault(description: "\(files.key) is not a readable PEM private key file (tls-key).")
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(key)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        // A peer that has vanished never answers the closing alert, and shutdown waits for it.
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

/// The paths of the two PEM files that TLS needs.
package struct TLSFiles: Hashable, Sendable {
    /// The certificate, followed by its intermediate certificates.
    package var certificates: String
    /// The certificate's private key.
    package var key: String

    package init(certificates: String, key: String) {
        self.certificates = certificates
        self.key = key
    }

    /// Identifies a version of the files without reading them.
    struct Version: Hashable, Sendable {
        private let files: [FileVersion?]

        init(_ files: TLSFiles) { self.files = [files.certificates, files.key].map { FileVersion($0) } }
    }
}

/// The reason why TLS files cannot be used, as a sentence for the operator.
package struct TLSFault: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
}

extension TLSFiles {
    /// Returns the time at which the first certificate expires.
    ///
    /// Throws the error with which a relay would refuse to start with these files.
    package func end() throws(TLSFault) -> Date {
        _ = try ServerTLS.context(of: self)
        guard let first = try? NIOSSLCertificate.fromPEMBytes(ServerTLS.bytes(certificates)).first else {
            throw TLSFault(description: "\(certificates) contains no certificate (tls-cert).")
        }
        return Date(timeIntervalSince1970: TimeInterval(first.notValidAfter))
    }
}
