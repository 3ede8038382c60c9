public import Foundation

/// A place in the change feed of a database or of a zone.
///
/// Opaque: keep it (it archives with secure coding) and hand it back to get what came after. Tokens of databases and
/// zones, of different accounts and environments, are never to be mixed, and tell nothing when compared for order.
public final class CKServerChangeToken: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The token as the relay wrote it.
    package let encoded: String

    package init(encoded: String) { self.encoded = encoded }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let text = coder.text("Token") else { return nil }
        encoded = text
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes the token.
    public func encode(with coder: NSCoder) { coder.encode(encoded as NSString, forKey: "Token") }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when they are the same place of the same feed.
    public override func isEqual(_ object: Any?) -> Bool {
        encoded == (object as? CKServerChangeToken)?.encoded
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { encoded.hashValue }
}
