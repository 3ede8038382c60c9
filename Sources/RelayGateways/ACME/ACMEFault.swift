import Records

/// Why no certificate was issued.
package struct ACMEFault: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The ACME server could not be reached.
        case unreachable
        /// The server failed or is overloaded.
        case serverError
        /// The server limits requests.
        case rateLimited
        /// The domain has no usable address in the DNS.
        case nameNotResolved
        /// Nothing answered on port 80 of the domain.
        case portNotReached
        /// Another server answered on port 80 of the domain.
        case otherServer
        /// A CAA record of the domain names other certificate authorities.
        case forbiddenByCAA
        /// The server issues no certificates for this domain.
        case nameRejected
        /// The server accepts no account with these settings.
        case accountRejected
        /// The order was not completed in time.
        case tooSlow
        /// The answer does not follow RFC 8555.
        case unexpectedAnswer
        /// The issued certificate is not for the domain or the key.
        case unusableCertificate
        /// A file in the data folder cannot be read or written.
        case storage
    }

    package var code: Code
    /// What happened and where.
    package var found: String
    /// What to do.
    package var remedy: String
    /// The wait that the server asks for.
    package var retryAfter: Duration?

    init(_ code: Code, _ found: String, _ remedy: String, retryAfter: Duration? = nil) {
        self.code = code
        self.found = found
        self.remedy = remedy
        self.retryAfter = retryAfter
    }

    package var description: String { "\(found) \(remedy)" }
}

extension ACMEFault {
    package static func unreachable(_ server: String, _ reason: String) -> Self {
        Self(
            .unreachable,
            "The certificate authority at \(server) cannot be reached: \(reason).",
            "Check acme-directory and this machine's outgoing connections; a private authority also needs acme-authorities."
        )
    }

    static func unexpectedAnswer(_ server: String, _ what: String) -> Self {
        Self(
            .unexpectedAnswer,
            "The certificate authority at \(server) gave an answer that is not ACME: \(what).",
            "Check that acme-directory is the address of an ACME directory (RFC 8555)."
        )
    }

    package static func tooSlow(_ domain: String) -> Self {
        Self(
            .tooSlow,
            "The certificate authority did not complete the order for \(domain) within 5 minutes.",
            "The relay tries again by itself."
        )
    }

    static func unusable(_ domain: String, _ why: String) -> Self {
        Self(
            .unusableCertificate,
            "The certificate that was issued for \(domain) cannot be used: \(why).",
            "The relay tries again by itself; if this repeats, report it to the certificate authority."
        )
    }

    static func storage(_ path: String, _ why: String) -> Self {
        Self(.storage, "\(path) cannot be used: \(why).", "Make the data folder writable for the relay's user.")
    }

    /// Translates a problem that the server reported, or an error status without one.
    init(
        _ problem: ACMEMessage.Problem?,
        status: Int,
        domain: String,
        server: String,
        retryAfter: Duration?
    ) {
        let detail = Self.detail(problem, status)
        switch problem?.code {
        case "rateLimited":
            self.init(
                .rateLimited,
                "The certificate authority limits requests for \(domain): \(detail).",
                "The relay waits as long as the authority asks. For tests, use its staging directory (acme-directory).",
                retryAfter: retryAfter
            )
        case "dns":
            self.init(
                .nameNotResolved,
                "The certificate authority finds no address of \(domain): \(detail).",
                "Create an A or AAAA record for \(domain) with this machine's public address."
            )
        case "connection", "tls":
            self.init(
                .portNotReached,
                "The certificate authority cannot connect to port 80 of \(domain): \(detail).",
                "Open port 80 in the firewall and forward it to acme-http-listen; check the A and AAAA records of \(domain)."
            )
        case "unauthorized" where status == 0, "incorrectResponse":
            self.init(
                .otherServer,
                "Another server answers on port 80 of \(domain): \(detail).",
                "Point the A and AAAA records of \(domain) to this machine, and let no other program use port 80."
            )
        case "caa":
            self.init(
                .forbiddenByCAA,
                "A CAA record forbids a certificate for \(domain): \(detail).",
                "Add a CAA record that names this certificate authority, or use the one it names (acme-directory)."
            )
        case "rejectedIdentifier", "unsupportedIdentifier":
            self.init(
                .nameRejected,
                "The certificate authority issues no certificate for \(domain): \(detail).",
                "Set domain to a public name, or use your own certificate authority (acme-directory)."
            )
        case "invalidContact", "unsupportedContact":
            self.init(
                .accountRejected,
                "The certificate authority rejects acme-email: \(detail).",
                "Set acme-email to an address that receives mail."
            )
        case "userActionRequired", "externalAccountRequired", "unauthorized", "accountDoesNotExist":
            self.init(
                .accountRejected,
                "The certificate authority at \(server) rejects the relay's account: \(detail).",
                "Use an authority that needs no external account (acme-directory), or let a proxy obtain the certificate."
            )
        default:
            self.init(
                status >= 500 || status == 429 ? .serverError : .unexpectedAnswer,
                "The certificate authority at \(server) refuses the order for \(domain): \(detail).",
                "The relay tries again by itself.",
                retryAfter: retryAfter
            )
        }
    }

    /// The server's own words on one line, at most 300 characters.
    private static func detail(_ problem: ACMEMessage.Problem?, _ status: Int) -> String {
        let words = [problem?.detail] + (problem?.subproblems ?? []).map(\.detail)
        let text = words.compactMap { $0 }.joined(separator: "; ").unicodeScalars
            .map { $0.properties.generalCategory == .control ? " " : String($0) }.joined()
        guard !text.isEmpty else { return status == 0 ? "it gave no reason" : "status \(status)" }
        let brief = text.count > 300 ? text.prefix(299) + "…" : text[...]
        return String(brief.hasSuffix(".") ? brief.dropLast() : brief)
    }
}
