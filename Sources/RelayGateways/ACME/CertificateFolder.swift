import Crypto
package import Foundation

/// The folder `acme` in the data folder: the account's key, and a file for each domain.
///
/// All files have the mode 0600 and are replaced atomically. The certificate and its key are in one file, so that a
/// reader never sees a certificate without its key.
package struct CertificateFolder: Sendable {
    /// What the last attempt to obtain a certificate left, in `DOMAIN.json`.
    package struct Status: Codable, Hashable, Sendable {
        /// The directory of the certificate authority that was asked.
        package var directory: String
        /// Why the last attempt failed; `nil` if it succeeded.
        package var fault: String?
        /// What to do about it.
        package var remedy: String?
        /// When the relay tries again.
        package var nextAttempt: Date?
        /// Whether the certificate authority asked to wait until then, so that a restart must not try earlier.
        package var isRateLimited: Bool?

        package init(
            directory: String,
            fault: String? = nil,
            remedy: String? = nil,
            nextAttempt: Date? = nil,
            isRateLimited: Bool? = nil
        ) {
            self.directory = directory
            self.fault = fault
            self.remedy = remedy
            self.nextAttempt = nextAttempt
            self.isRateLimited = isRateLimited
        }
    }

    package let domain: String
    private let folder: String

    package init(data: String, domain: String) {
        folder = data + "/acme"
        self.domain = domain
    }

    /// The PEM file with the certificate, its intermediate certificates, and the private key.
    package var certificatePath: String { "\(folder)/\(domain).pem" }

    private var statusPath: String { "\(folder)/\(domain).json" }

    /// Returns the period of the present certificate; `nil` if there is none.
    package var period: CertificatePeriod? {
        FileManager.default.contents(atPath: certificatePath)
            .flatMap { SigningRequest.period(of: String(decoding: $0, as: UTF8.self)) }
    }

    package var status: Status? {
        FileManager.default.contents(atPath: statusPath).flatMap { try? JSONDecoder().decode(Status.self, from: $0) }
    }

    /// Returns the account's key, which the first call creates.
    func accountKey() throws(ACMEFault) -> ACMEAccountKey {
        let path = "\(folder)/account.pem"
        if let content = FileManager.default.contents(atPath: path) {
            guard let key = try? P256.Signing.PrivateKey(pemRepresentation: String(decoding: content, as: UTF8.self))
            else {
                throw ACMEFault(
                    .storage,
                    "\(path) is not the key of an account.",
                    "Delete it, and the relay creates a new account."
                )
            }
            return ACMEAccountKey(key)
        }
        let key = P256.Signing.PrivateKey()
        try write(Data(key.pemRepresentation.utf8), to: path)
        return ACMEAccountKey(key)
    }

    func save(_ chain: String, _ key: P256.Signing.PrivateKey) throws(ACMEFault) {
        let end = chain.hasSuffix("\n") ? "" : "\n"
        try write(Data((chain + end + key.pemRepresentation + "\n").utf8), to: certificatePath)
    }

    package func save(_ status: Status) throws(ACMEFault) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
        guard let content = try? encoder.encode(status) else { return }
        try write(content, to: statusPath)
    }

    /// Returns when the content is on the disk under its final name.
    private func write(_ content: Data, to path: String) throws(ACMEFault) {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw .storage(folder, "it cannot be created")
        }
        let draft = path + ".new"
        // A draft that a crash has left could have other rights.
        unlink(draft)
        let descriptor = open(draft, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw fault(draft) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: content)
            try handle.synchronize()
            try handle.close()
        } catch {
            unlink(draft)
            throw .storage(draft, "it cannot be written")
        }
        guard rename(draft, path) == 0 else { throw fault(path) }
        let names = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard names >= 0 else { return }
        fsync(names)
        close(names)
    }

    private func fault(_ path: String) -> ACMEFault { .storage(path, String(cString: strerror(errno))) }
}
