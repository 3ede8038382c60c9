package import Foundation
import NIOSSL

extension TLSFiles {
    /// When the first certificate ends.
    ///
    /// Throws what a relay would say that is started with these files.
    package func end() throws(TLSFault) -> Date {
        _ = try ServerTLS.context(of: self)
        guard let first = try? NIOSSLCertificate.fromPEMFile(certificates).first else {
            throw TLSFault(description: "\(certificates) holds no certificate (tls-cert).")
        }
        return Date(timeIntervalSince1970: TimeInterval(first.notValidAfter))
    }
}
