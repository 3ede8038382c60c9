import RelayStore

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
    struct Mark: Hashable, Sendable {
        private let files: [FileVersion?]

        init(_ files: TLSFiles) { self.files = [files.certificates, files.key].map { FileVersion($0) } }
    }
}

/// The reason why TLS files cannot be used, as a sentence for the operator.
package struct TLSFault: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
}
