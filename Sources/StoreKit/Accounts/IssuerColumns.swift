package import Records
package import RelayCore

/// The lists and places of a token issuer, in the columns of a row.
package struct IssuerColumns: Sendable {
    /// One a line.
    package var audiences: String
    /// Separated by commas.
    package var algorithms: String
    /// One of the two is set.
    package var keysURL: String?
    package var keysFile: String?
    /// `FIELD=CLAIM`, one a line.
    package var claims: String

    package init(audiences: String, algorithms: String, keysURL: String?, keysFile: String?, claims: String) {
        self.audiences = audiences
        self.algorithms = algorithms
        self.keysURL = keysURL
        self.keysFile = keysFile
        self.claims = claims
    }

    package init(_ issuer: TokenIssuer) {
        audiences = issuer.audiences.joined(separator: "\n")
        algorithms = issuer.algorithms.map(\.rawValue).sorted().joined(separator: ",")
        claims = issuer.claims.map { "\($0.key.rawValue)=\($0.value)" }.sorted().joined(separator: "\n")
        switch issuer.keys {
        case .url(let address): keysURL = address
        case .file(let path): keysFile = path
        }
    }

    /// Returns the issuer; `nil` if the row has no place of its keys.
    package func issuer(
        _ name: String,
        of container: ContainerID,
        trustsContacts: Bool,
        created: Timestamp
    ) -> TokenIssuer? {
        guard let place: TokenIssuer.KeyLocation = keysURL.map({ .url($0) }) ?? keysFile.map({ .file($0) }) else {
            return nil
        }
        let claims = claims.split(separator: "\n").compactMap { line in
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            return parts.count == 2 ? TokenIssuer.Field(rawValue: parts[0]).map { ($0, parts[1]) } : nil
        }
        return TokenIssuer(
            container: container,
            issuer: name,
            audiences: audiences.split(separator: "\n").map(String.init),
            algorithms: Set(algorithms.split(separator: ",").compactMap { .init(rawValue: String($0)) }),
            keys: place,
            claims: Dictionary(claims) { $1 },
            trustsContacts: trustsContacts,
            created: created
        )
    }
}
