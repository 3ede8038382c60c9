import RelayStore

/// The two PEM files that TLS stands on.
package struct TLSFiles: Hashable, Sendable {
    /// The certificate first, then those that lead to an authority.
    package var certificates: String
    /// The certificate's private key.
    package var key: String

    package init(certificates: String, key: String) {
        self.certificates = certificates
        self.key = key
    }

    /// What tells one version of the files from another, without reading them.
    struct Mark: Hashable, Sendable {
        private let files: [FileVersion?]

        init(_ files: TLSFiles) { self.files = [files.certificates, files.key].map { FileVersion($0) } }
    }
}

/// Why TLS files cannot be used: a sentence for the person who named them.
package struct TLSFault: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
}
