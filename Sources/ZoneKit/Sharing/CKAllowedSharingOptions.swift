public import Foundation

/// What people may be offered to do with a share.
public struct CKSharingParticipantPermissionOption: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt
    /// Makes a set of its bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }
    /// To read.
    public static let readOnly = CKSharingParticipantPermissionOption(rawValue: 1)
    /// To read and change.
    public static let readWrite = CKSharingParticipantPermissionOption(rawValue: 2)
    /// Either.
    public static let any: CKSharingParticipantPermissionOption = [.readOnly, .readWrite]
}

/// Who may be let into a share.
public struct CKSharingParticipantAccessOption: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt
    /// Makes a set of its bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }
    /// Anybody with the link.
    public static let anyoneWithLink = CKSharingParticipantAccessOption(rawValue: 1)
    /// Those invited.
    public static let specifiedRecipientsOnly = CKSharingParticipantAccessOption(rawValue: 2)
    /// Either.
    public static let any: CKSharingParticipantAccessOption = [.anyoneWithLink, .specifiedRecipientsOnly]
}

/// What a program's own sharing interface is to offer.
public final class CKAllowedSharingOptions: NSObject, NSCopying, NSSecureCoding, @unchecked Sendable {
    // Unchecked: set up by one thread before it is shown, as in CloudKit.

    /// What people may be offered to do.
    public var allowedParticipantPermissionOptions: CKSharingParticipantPermissionOption
    /// Who may be let in.
    public var allowedParticipantAccessOptions: CKSharingParticipantAccessOption

    /// Whether people may be offered to take requests for access; not so at first.
    public var allowsAccessRequests = false
    /// Whether people may be offered to let participants invite others; not so at first.
    public var allowsParticipantsToInviteOthers = false

    /// Says what to offer.
    ///
    /// - Parameters:
    ///   - allowedParticipantPermissionOptions: What people may be offered to do.
    ///   - allowedParticipantAccessOptions: Who may be let in.
    public init(
        allowedParticipantPermissionOptions: CKSharingParticipantPermissionOption,
        allowedParticipantAccessOptions: CKSharingParticipantAccessOption
    ) {
        self.allowedParticipantPermissionOptions = allowedParticipantPermissionOptions
        self.allowedParticipantAccessOptions = allowedParticipantAccessOptions
    }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        self.init(
            allowedParticipantPermissionOptions: .init(rawValue: UInt(coder.number("Permissions"))),
            allowedParticipantAccessOptions: .init(rawValue: UInt(coder.number("Access")))
        )
        allowsAccessRequests = coder.number("Requests") == 1
        allowsParticipantsToInviteOthers = coder.number("Inviting") == 1
    }

    /// Everything.
    public class var standard: CKAllowedSharingOptions {
        CKAllowedSharingOptions(allowedParticipantPermissionOptions: .any, allowedParticipantAccessOptions: .any)
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes all of it.
    public func encode(with coder: NSCoder) {
        coder.encode(Int(allowedParticipantPermissionOptions.rawValue), forKey: "Permissions")
        coder.encode(Int(allowedParticipantAccessOptions.rawValue), forKey: "Access")
        coder.encode(allowsAccessRequests ? 1 : 0, forKey: "Requests")
        coder.encode(allowsParticipantsToInviteOthers ? 1 : 0, forKey: "Inviting")
    }

    /// An independent copy.
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
