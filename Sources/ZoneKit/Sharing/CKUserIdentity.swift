public import Foundation
package import Wire

/// A user as far as the relay tells others: who invited, who may be invited, who is in a share.
///
/// Immutable.
public final class CKUserIdentity: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked because NSObject is inherited; nothing in it changes.

    /// By what a user is looked for.
    public typealias LookupInfo = CKUserIdentityLookupInfo

    package let identity: ClientIdentity
    private let callerName: String?

    package init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// The user's record; the name is `CKCurrentUserDefaultName` for the current user, and there is none for somebody
    /// without an account.
    public var userRecordID: CKRecord.ID? {
        identity.userRecordName.map { name in
            CKRecord.ID(recordName: name == callerName ? CKCurrentUserDefaultName : name)
        }
    }

    /// By what the user was looked for, where they were.
    public var lookupInfo: LookupInfo? { identity.lookup.map { LookupInfo($0) } }

    /// The user's name, where they let others see it.
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

    /// Whether the relay knows the user; the name is CloudKit's.
    public var hasiCloudAccount: Bool { identity.userRecordName != nil }

    /// Always empty: there is no address book.
    public var contactIdentifiers: [String] { [] }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let json = coder.bytes("Identity"),
            let document = try? JSONDocument(parsing: json, limits: .response),
            let identity = try? ClientIdentity(document.root)
        else { return nil }
        self.init(identity, callerName: coder.text("Caller"))
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes all that is known.
    public func encode(with coder: NSCoder) {
        var writer = JSONWriter()
        identity.write(to: &writer)
        coder.encode(Data(writer.bytes) as NSData, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool { identity == (object as? CKUserIdentity)?.identity }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { identity.hashValue }
}

/// By what a user is looked for; known to programs as `CKUserIdentity.LookupInfo`.
public final class CKUserIdentityLookupInfo: NSObject, NSSecureCoding, NSCopying, Sendable {
    package let lookup: ClientIdentity.Lookup

    package init(_ lookup: ClientIdentity.Lookup) { self.lookup = lookup }

    /// By an e-mail address.
    public convenience init(emailAddress: String) { self.init(.init(emailAddress: emailAddress)) }

    /// By a telephone number.
    public convenience init(phoneNumber: String) { self.init(.init(phoneNumber: phoneNumber)) }

    /// By a user's record.
    public convenience init(userRecordID: CKRecord.ID) { self.init(.init(userRecordName: userRecordID.recordName)) }

    /// One for each address.
    public class func lookupInfos(withEmails emails: [String]) -> [CKUserIdentity.LookupInfo] {
        emails.map { CKUserIdentityLookupInfo(emailAddress: $0) }
    }

    /// One for each number.
    public class func lookupInfos(withPhoneNumbers phoneNumbers: [String]) -> [CKUserIdentity.LookupInfo] {
        phoneNumbers.map { CKUserIdentityLookupInfo(phoneNumber: $0) }
    }

    /// One for each user.
    public class func lookupInfos(with recordIDs: [CKRecord.ID]) -> [CKUserIdentity.LookupInfo] {
        recordIDs.map { CKUserIdentityLookupInfo(userRecordID: $0) }
    }

    /// The address, if it is that.
    public var emailAddress: String? { lookup.emailAddress }
    /// The number, if it is that.
    public var phoneNumber: String? { lookup.phoneNumber }
    /// The user's record, if it is that.
    public var userRecordID: CKRecord.ID? { lookup.userRecordName.map { CKRecord.ID(recordName: $0) } }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        self.init(
            .init(
                emailAddress: coder.text("EmailAddress"),
                phoneNumber: coder.text("PhoneNumber"),
                userRecordName: coder.text("UserRecordName")
            )
        )
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes whichever it is.
    public func encode(with coder: NSCoder) {
        if let text = lookup.emailAddress { coder.encode(text as NSString, forKey: "EmailAddress") }
        if let text = lookup.phoneNumber { coder.encode(text as NSString, forKey: "PhoneNumber") }
        if let text = lookup.userRecordName { coder.encode(text as NSString, forKey: "UserRecordName") }
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool {
        lookup == (object as? CKUserIdentityLookupInfo)?.lookup
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { lookup.hashValue }
}
