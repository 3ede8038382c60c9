public import Foundation

/// A position in the change feed of a database or of a zone.
///
/// The token is opaque. Store it (it supports secure coding) and pass it to the next fetch to get later changes. Use a
/// token only for the database or zone, the account and the environment that it was issued for. Tokens have no order.
public final class CKServerChangeToken: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The token in the relay's format.
    package let encoded: String

    package init(encoded: String) { self.encoded = encoded }

    /// Creates a token from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let text = coder.text("Token") else { return nil }
        encoded = text
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the token.
    public func encode(with coder: NSCoder) { coder.encode(encoded as NSString, forKey: "Token") }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two tokens are the same position in the same feed.
    public override func isEqual(_ object: Any?) -> Bool {
        encoded == (object as? CKServerChangeToken)?.encoded
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { encoded.hashValue }
}
