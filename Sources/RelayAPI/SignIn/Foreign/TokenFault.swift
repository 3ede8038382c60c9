/// Why an identity token is not believed.
///
/// For the operator (`zonecast issuer check`); whoever sent it learns only that it failed.
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

    package var description: String {
        switch self {
        case .malformed: "That is no JWT: three parts of base64url with dots between, the first two JSON objects."
        case .unknownIssuer: "Its iss claim names no issuer that the container trusts. List them: zonecast issuer list"
        case .criticalHeader: "Its header has crit, which demands things that no issuer may demand of this relay."
        case .algorithm(let name): "It is signed with \(name), which is not among the issuer's --algorithm."
        case .noKey(let id):
            "The issuer's keys have none for it" + (id.map { ": no key with kid \"\($0)\" fits." } ?? ".")
        case .signature: "No key of the issuer made its signature."
        case .audience: "Its aud claim names none of the issuer's --audience."
        case .expired: "It has expired, by its exp claim and the relay's clock."
        case .notYetValid: "It is not valid yet, by its nbf or iat claim and the relay's clock."
        case .claim(let name): "Its claim \(name) is missing or not what it must be."
        case .keys(let reason): "The issuer's keys cannot be had: \(reason)"
        }
    }
}
