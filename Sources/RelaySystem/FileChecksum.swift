import Crypto
import Foundation
import RelayCore

/// The SHA-256 of files.
package enum FileChecksum {
    /// Reads a file, and returns the hash as hexadecimal digits, and the number of bytes.
    package static func sha256(of path: String) throws(DiskCalls.Failure) -> (hex: String, bytes: Int64) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw DiskCalls.Failure("open") }
        defer { close(descriptor) }
        var hasher = SHA256()
        var bytes: Int64 = 0
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw DiskCalls.Failure("read") }
            guard count > 0 else { break }
            buffer.withUnsafeBytes { hasher.update(bufferPointer: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            bytes += Int64(count)
        }
        return (Hex.encode(hasher.finalize()), bytes)
    }
}
