/// Why an identity token is refused.
///
/// For the operator (`zonecast user issuer check`); the client learns only that authentication failed.
package enum TokenFault: Error, Hashable, Sendable, CustomStringConvertible {
    case malformed
    case unknownIssuer
    case criticalHeader
    case algorithm(String)
    case noKey(String?)
    case signature
    case audience
    case expired
    case notYetValid
    case claim(String)
    case keys(String)

    /// Whether other keys of the issuer may fit.
    package var isOfKeys: Bool {
        switch self {
        case .noKey, .signature: true
        default: false
        }
    }

    package var description: String {
        switch self {
        case .malformed: "This is not a JWT: three parts of base64url separated by dots, the first two JSON objects."
        case .unknownIssuer: "The container does not trust its iss claim. List issuers: zonecast user issuer list"
        case .criticalHeader: "Its header has the parameter crit, which this relay does not support."
        case .algorithm(let name): "It is signed with \(name), which is not among the issuer's --algorithm."
        case .noKey(let id):
            "None of the issuer's keys matches" + (id.map { ": no suitable key has kid \"\($0)\"." } ?? ".")
        case .signature: "Its signature was not made with a key of the issuer."
        case .audience: "Its aud claim contains none of the issuer's --audience values."
        case .expired: "It has expired, by its exp claim and the relay's clock."
        case .notYetValid: "It is not valid yet, by its nbf or iat claim and the relay's clock."
        case .claim(let name): "Its claim \(name) is missing or invalid."
        case .keys(let reason): "The issuer's keys are not available: \(reason)"
        }
    }
}
