package import RelayCore

/// The kind of a login, as a number in a row.
package struct LoginMethod: RawRepresentable, Hashable, Sendable {
    package var rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let email = LoginMethod(rawValue: 0)
    package static let dev = LoginMethod(rawValue: 1)
    /// Issuer, a line feed, subject.
    package static let foreign = LoginMethod(rawValue: 2)

    /// Returns the stored text for a person whom an issuer vouches for.
    package static func text(of person: ExternalIdentity) -> String { person.issuer + "\n" + person.subject }

    package func login(_ text: String) -> Account.Login {
        switch self {
        case .dev: return .dev(text)
        case .foreign:
            let parts = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            return .foreign(issuer: parts.first ?? "", subject: parts.count > 1 ? parts[1] : "")
        default: return .email(text)
        }
    }
}

extension Session.ID {
    /// 16 bytes, most significant first.
    package var bytes: [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    package init(_ bytes: some Sequence<UInt8>) { self.init(bytes.reduce(0) { $0 << 8 | UInt128($1) }) }
}
