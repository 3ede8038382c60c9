public import Foundation

/// The ID of a notification; also available as `CKNotification.ID`.
///
/// IDs are immutable and compared by value.
public final class CKNotificationID: NSObject, NSSecureCoding, NSCopying, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    /// Creates an ID from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let text = coder.text("NotificationID") else { return nil }
        self.text = text
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the ID.
    public func encode(with coder: NSCoder) { coder.encode(text as NSString, forKey: "NotificationID") }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two IDs are equal.
    public override func isEqual(_ object: Any?) -> Bool { text == (object as? CKNotificationID)?.text }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { text.hashValue }

    /// The text of the ID.
    public override var description: String { text }
}
