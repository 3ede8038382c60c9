package import Foundation
import NIOSSL

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
