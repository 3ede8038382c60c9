package import Crypto
package import Foundation
import SwiftASN1
import X509

/// Signing requests for certificates, and checks of the certificates that are issued for them.
package enum SigningRequest {
    /// Returns the signing request for one domain in DER.
    package static func der(for domain: String, _ key: P256.Signing.PrivateKey) throws -> [UInt8] {
        let names = try Certificate.Extensions {
            SubjectAlternativeNames([.dnsName(domain)])
        }
        let request = try CertificateSigningRequest(
            version: .v1,
            subject: DistinguishedName(),
            privateKey: Certificate.PrivateKey(key),
            attributes: .init([.init(ExtensionRequest(extensions: names))]),
            signatureAlgorithm: .ecdsaWithSHA256
        )
        var serializer = DER.Serializer()
        try serializer.serialize(request)
        return serializer.serializedBytes
    }

    /// Returns the period in which the first certificate of a PEM text is valid.
    ///
    /// - Throws: `ACMEFault` if it is not a certificate for this domain and key.
    package static func period(
        of chain: String,
        domain: String,
        _ key: P256.Signing.PrivateKey
    ) throws(ACMEFault) -> CertificatePeriod {
        guard let certificate = first(in: chain) else { throw .unusable(domain, "it is not in PEM") }
        guard certificate.publicKey == Certificate.PrivateKey(key).publicKey else {
            throw .unusable(domain, "it is for another key")
        }
        let names = try? certificate.extensions.subjectAlternativeNames
        guard names?.contains(.dnsName(domain)) == true else { throw .unusable(domain, "it is for another name") }
        return CertificatePeriod(start: certificate.notValidBefore, end: certificate.notValidAfter)
    }

    /// Returns the period of the first certificate of a PEM text, which may also hold a key; `nil` if there is none.
    package static func period(of text: String) -> CertificatePeriod? {
        first(in: text).map { CertificatePeriod(start: $0.notValidBefore, end: $0.notValidAfter) }
    }

    private static func first(in text: String) -> Certificate? {
        let documents = (try? PEMDocument.parseMultiple(pemString: text)) ?? []
        return documents.first { $0.discriminator == Certificate.defaultPEMDiscriminator }
            .flatMap { try? Certificate(pemDocument: $0) }
    }
}

/// When a certificate is valid.
package struct CertificatePeriod: Hashable, Sendable {
    package var start: Date
    package var end: Date

    package init(start: Date, end: Date) {
        self.start = start
        self.end = end
    }
}
