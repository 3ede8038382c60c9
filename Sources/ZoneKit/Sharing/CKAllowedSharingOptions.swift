public import Foundation

/// The permissions that a sharing interface offers.
public struct CKSharingParticipantPermissionOption: OptionSet, Sendable {
    /// The raw value of the set.
    public let rawValue: UInt
    /// Creates a set from a raw value.
    public init(rawValue: UInt) { self.rawValue = rawValue }
    /// Reading.
    public static let readOnly = CKSharingParticipantPermissionOption(rawValue: 1)
    /// Reading and changing.
    public static let readWrite = CKSharingParticipantPermissionOption(rawValue: 2)
    /// All permissions.
    public static let any: CKSharingParticipantPermissionOption = [.readOnly, .readWrite]
}

/// The kinds of access that a sharing interface offers.
public struct CKSharingParticipantAccessOption: OptionSet, Sendable {
    /// The raw value of the set.
    public let rawValue: UInt
    /// Creates a set from a raw value.
    public init(rawValue: UInt) { self.rawValue = rawValue }
    /// Access for anyone with the link.
    public static let anyoneWithLink = CKSharingParticipantAccessOption(rawValue: 1)
    /// Access for invited people only.
    public static let specifiedRecipientsOnly = CKSharingParticipantAccessOption(rawValue: 2)
    /// All kinds of access.
    public static let any: CKSharingParticipantAccessOption = [.anyoneWithLink, .specifiedRecipientsOnly]
}

/// The options that an app's sharing interface offers.
public final class CKAllowedSharingOptions: NSObject, NSCopying, NSSecureCoding, @unchecked Sendable {
    // Unchecked: one thread configures it before it is shown, as in CloudKit.

    /// The permissions to offer.
    public var allowedParticipantPermissionOptions: CKSharingParticipantPermissionOption
    /// The kinds of access to offer.
    public var allowedParticipantAccessOptions: CKSharingParticipantAccessOption

    /// Whether to offer accepting access requests.
    ///
    /// The default is `false`.
    public var allowsAccessRequests = false
    /// Whether to offer that participants can invite others.
    ///
    /// The default is `false`.
    public var allowsParticipantsToInviteOthers = false

    /// Creates sharing options.
    ///
    /// - Parameters:
    ///   - allowedParticipantPermissionOptions: The permissions to offer.
    ///   - allowedParticipantAccessOptions: The kinds of access to offer.
    public init(
        allowedParticipantPermissionOptions: CKSharingParticipantPermissionOption,
        allowedParticipantAccessOptions: CKSharingParticipantAccessOption
    ) {
        self.allowedParticipantPermissionOptions = allowedParticipantPermissionOptions
        self.allowedParticipantAccessOptions = allowedParticipantAccessOptions
    }

    /// Creates options from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        self.init(
            allowedParticipantPermissionOptions: .init(rawValue: UInt(coder.number("Permissions"))),
            allowedParticipantAccessOptions: .init(rawValue: UInt(coder.number("Access")))
        )
        allowsAccessRequests = coder.number("Requests") == 1
        allowsParticipantsToInviteOthers = coder.number("Inviting") == 1
    }

    /// Options that offer all permissions and all kinds of access.
    public class var standard: CKAllowedSharingOptions {
        CKAllowedSharingOptions(allowedParticipantPermissionOptions: .any, allowedParticipantAccessOptions: .any)
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes all options.
    public func encode(with coder: NSCoder) {
        coder.encode(Int(allowedParticipantPermissionOptions.rawValue), forKey: "Permissions")
        coder.encode(Int(allowedParticipantAccessOptions.rawValue), forKey: "Access")
        coder.encode(allowsAccessRequests ? 1 : 0, forKey: "Requests")
        coder.encode(allowsParticipantsToInviteOthers ? 1 : 0, forKey: "Inviting")
    }

    /// Returns an independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKAllowedSharingOptions(
            allowedParticipantPermissionOptions: allowedParticipantPermissionOptions,
            allowedParticipantAccessOptions: allowedParticipantAccessOptions
        )
        copy.allowsAccessRequests = allowsAccessRequests
        copy.allowsParticipantsToInviteOthers = allowsParticipantsToInviteOthers
        return copy
    }
}
