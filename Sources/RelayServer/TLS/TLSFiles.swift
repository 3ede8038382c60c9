#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

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
        private struct File: Hashable, Sendable {
            var inode: UInt64
            var size: Int64
            var seconds: Int64
            var nanoseconds: Int64
        }

        private let files: [File?]

        init(_ files: TLSFiles) {
            self.files = [files.certificates, files.key].map { path in
                var facts = stat()
                guard stat(path, &facts) == 0 else { return nil }
                #if canImport(Darwin)
                    let time = facts.st_mtimespec
                #else
                    let time = facts.st_mtim
                #endif
                return File(
                    inode: UInt64(facts.st_ino),
                    size: Int64(facts.st_size),
                    seconds: Int64(time.tv_sec),
                    nanoseconds: Int64(time.tv_nsec)
                )
            }
        }
    }
}

/// Why TLS files cannot be used: a sentence for the person who named them.
package struct TLSFault: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
}
