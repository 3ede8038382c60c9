public import Foundation
package import Wire

/// The identity of a user, as far as the relay reveals it to others.
///
/// Identities are immutable.
public final class CKUserIdentity: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked because `NSObject` is the superclass; the object is immutable.

    /// The criteria for finding a user.
    public typealias LookupInfo = CKUserIdentityLookupInfo

    package let identity: ClientIdentity
    private let callerName: String?

    package init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// The user's record ID; `nil` for a person without an account.
    ///
    /// The record name is `CKCurrentUserDefaultName` for the current user.
    public var userRecordID: CKRecord.ID? {
        identity.userRecordName.map { name in
            CKRecord.ID(recordName: name == callerName ? CKCurrentUserDefaultName : name)
        }
    }

    /// The criteria with which the user was found, if any.
    public var lookupInfo: LookupInfo? { identity.lookup.map { LookupInfo($0) } }

    /// The user's name, if the user makes it visible to others.
    public var nameComponents: PersonNameComponents? {
        guard !identity.name.isEmpty else { return nil }
        var name = PersonNameComponents()
        name.namePrefix = identity.name[.namePrefix]
        name.givenName = identity.name[.givenName]
        name.middleName = identity.name[.middleName]
        name.familyName = identity.name[.familyName]
        name.nameSuffix = identity.name[.nameSuffix]
        name.nickname = identity.name[.nickname]
        return name
    }

    /// Whether the user has an account at the relay.
    ///
    /// The name is CloudKit's.
    public var hasiCloudAccount: Bool { identity.userRecordName != nil }

    /// Always empty, because there is no address book.
    public var contactIdentifiers: [String] { [] }

    /// Creates an identity from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let json = coder.bytes("Identity"),
            let document = try? JSONDocument(parsing: json, limits: .response),
            let identity = try? ClientIdentity(document.root)
        else { return nil }
        self.init(identity, callerName: coder.text("Caller"))
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes all properties.
    public func encode(with coder: NSCoder) {
        var writer = JSONWriter()
        identity.write(to: &writer)
        coder.encode(Data(writer.bytes) as NSData, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two identities are equal.
    public override func isEqual(_ object: Any?) -> Bool { identity == (object as? CKUserIdentity)?.identity }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { identity.hashValue }
}

/// The criteria for finding a user; also available as `CKUserIdentity.LookupInfo`.
public final class CKUserIdentityLookupInfo: NSObject, NSSecureCoding, NSCopying, Sendable {
    package let lookup: ClientIdentity.Lookup

    package init(_ lookup: ClientIdentity.Lookup) { self.lookup = lookup }

    /// Creates criteria with an email address.
    public convenience init(emailAddress: String) { self.init(.init(emailAddress: emailAddress)) }

    /// Creates criteria with a phone number.
    public convenience init(phoneNumber: String) { self.init(.init(phoneNumber: phoneNumber)) }

    /// Creates criteria with a user record ID.
    public convenience init(userRecordID: CKRecord.ID) { self.init(.init(userRecordName: userRecordID.recordName)) }

    /// Returns criteria for each email address.
    public class func lookupInfos(withEmails emails: [String]) -> [CKUserIdentity.LookupInfo] {
        emails.map { CKUserIdentityLookupInfo(emailAddress: $0) }
    }

    /// Returns criteria for each phone number.
    public class func lookupInfos(withPhoneNumbers phoneNumbers: [String]) -> [CKUserIdentity.LookupInfo] {
        phoneNumbers.map { CKUserIdentityLookupInfo(phoneNumber: $0) }
    }

    /// Returns criteria for each user record ID.
    public class func lookupInfos(with recordIDs: [CKRecord.ID]) -> [CKUserIdentity.LookupInfo] {
        recordIDs.map { CKUserIdentityLookupInfo(userRecordID: $0) }
    }

    /// The email address; `nil` for other criteria.
    public var emailAddress: String? { lookup.emailAddress }
    /// The phone number; `nil` for other criteria.
    public var phoneNumber: String? { lookup.phoneNumber }
    /// The user record ID; `nil` for other criteria.
    public var userRecordID: CKRecord.ID? { lookup.userRecordName.map { CKRecord.ID(recordName: $0) } }

    /// Creates criteria from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        self.init(
            .init(
                emailAddress: coder.text("EmailAddress"),
                phoneNumber: coder.text("PhoneNumber"),
                userRecordName: coder.text("UserRecordName")
            )
        )
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the criteria.
    public func encode(with coder: NSCoder) {
        if let text = lookup.emailAddress { coder.encode(text as NSString, forKey: "EmailAddress") }
        if let text = lookup.phoneNumber { coder.encode(text as NSString, forKey: "PhoneNumber") }
        if let text = lookup.userRecordName { coder.encode(text as NSString, forKey: "UserRecordName") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two criteria are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        lookup == (object as? CKUserIdentityLookupInfo)?.lookup
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { lookup.hashValue }
}
