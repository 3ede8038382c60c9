public import Foundation

/// Names one notice; known to programs as `CKNotification.ID`.
///
/// Immutable, equal by value.
public final class CKNotificationID: NSObject, NSSecureCoding, NSCopying, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let text = coder.text("NotificationID") else { return nil }
        self.text = text
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes the name.
    public func encode(with coder: NSCoder) { coder.encode(text as NSString, forKey: "NotificationID") }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool { text == (object as? CKNotificationID)?.text }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { text.hashValue }

    /// The name, for logs.
    public override var description: String { text }
}
