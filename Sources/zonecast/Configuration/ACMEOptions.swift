import AsyncHTTPClient
import Foundation
import NIOCore
import NIOSSL
import Records
import RelayAPI
import RelayGateways
import RelayServer

/// The keys `domain` and `acme-…` of the configuration: certificates that the relay obtains itself.
struct ACMEOptions: Sendable {
    static let letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

    var domain: String?
    var email: String?
    var directory = letsEncrypt
    /// A PEM file.
    var authorities: String?
    var httpListen = ListenAddress(host: "0.0.0.0", port: 80)

    /// Returns the additional trust roots for the ACME server; `nil` if no file is configured.
    func trustRoots() throws -> [NIOSSLCertificate]? {
        guard let authorities else { return nil }
        guard let bytes = InputFile.bytes(authorities), let roots = try? NIOSSLCertificate.fromPEMBytes(bytes),
            !roots.isEmpty
        else {
            throw CommandFailure(
                .usage,
                "acme-authorities: \(authorities) is not a readable PEM file with certificates."
            )
        }
        return roots
    }

    /// Returns a client that the caller must shut down.
    func client() throws -> HTTPClient {
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(10), read: .seconds(30))
        var tls = TLSConfiguration.makeClientConfiguration()
        if let roots = try trustRoots() { tls.additionalTrustRoots = [.certificates(roots)] }
        configuration.tlsConfiguration = tls
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }
}

extension ServeSettings {
    /// The certificates' folder; `nil` if the relay does not obtain certificates.
    var certificates: CertificateFolder? { acme.domain.map { CertificateFolder(data: data, domain: $0) } }

    /// Applies `domain`: TLS with the relay's own certificate, and the defaults of `public-url` and `listen`.
    ///
    /// - Throws: `CommandFailure` if `domain` and other keys contradict each other.
    mutating func applyDomain(isListenSet: Bool) throws {
        guard let domain = acme.domain, let certificates else {
            guard acme.email == nil else {
                throw CommandFailure(.usage, "acme-email requires domain, the name to obtain a certificate for.")
            }
            return
        }
        guard tlsCertificates == nil, tlsKey == nil else {
            throw CommandFailure(
                .usage,
                "domain obtains a certificate and cannot be combined with tls-cert and tls-key. Remove domain or the files."
            )
        }
        guard acme.email != nil else {
            throw CommandFailure(
                .usage,
                "domain requires acme-email, an address for messages of the certificate authority. Setting it accepts the authority's terms of service."
            )
        }
        server.tls = TLSFiles(certificates: certificates.certificatePath, key: certificates.certificatePath)
        signIn.endsTLS = true
        if !isListenSet { address = ListenAddress(host: "0.0.0.0", port: 443) }
        if signIn.publicURL == nil { signIn.publicURL = "https://\(domain)" }
    }
}

extension ConfigurationKeys {
    static let certificates: [ConfigurationKey] = [
        .text(
            "domain",
            \.acme.domain,
            "a domain name, like sync.example.org",
            "Obtain and renew a certificate for this name (ACME). Sets public-url, and listen to 0.0.0.0:443, unless they are set.",
            read: { $0 ?? "" },
            parse: { domain($0).map { .some($0) } }
        ),
        .text(
            "acme-email",
            \.acme.email,
            "an e-mail address",
            "The address for messages of the certificate authority, whose terms of service it accepts. Required with domain.",
            read: { $0 ?? "" },
            parse: { email($0).map { .some($0) } }
        ),
        .text(
            "acme-directory",
            \.acme.directory,
            "an https address",
            "The ACME directory of the certificate authority; by default that of Let's Encrypt.",
            read: { $0 },
            parse: {
                $0.hasPrefix("https://") && URL(string: $0)?.host() != nil && PortNumber.isUsable(in: $0) ? $0 : nil
            }
        ),
        .text(
            "acme-authorities",
            \.acme.authorities,
            "the path of a PEM file, from / on",
            "Certificates to trust in addition to the system's when connecting to acme-directory.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .text(
            "acme-http-listen",
            \.acme.httpListen,
            "an address and a port, like 0.0.0.0:80",
            "The address on which port 80 of domain arrives, for the authority's checks; other requests are redirected to https.",
            read: { "\($0)" },
            parse: { ListenAddress($0) }
        ),
    ]

    /// A name, not an IP address or a wildcard.
    private static func domain(_ text: String) -> String? {
        guard let name = HostName.ascii(text), !name.hasSuffix("."), name.first != "[",
            name.split(separator: ".").last?.allSatisfy(\.isNumber) == false
        else { return nil }
        return name
    }

    private static func email(_ text: String) -> String? {
        // These characters separate addresses or parameters in a mailto address.
        guard !text.contains(where: { ",?&%".contains($0) || $0.isWhitespace }) else { return nil }
        return EmailAddress.canonical(text)
    }
}
