import Records
import RelayCore
import Wire

/// The key by which a client looks up a user.
///
/// See Wire.md, "Users". If there are several keys, the first valid one of record name, address and number is used.
struct LookupInfo {
    var emailAddress: String?
    var phoneNumber: String?
    var userRecordName: String?

    init(emailAddress: String) { self.emailAddress = emailAddress }
    init(userRecordName: String) { self.userRecordName = userRecordName }

    /// Reads `{ "emailAddress" | "phoneNumber" | "userRecordName" }`.
    init(_ json: JSONValue) throws {
        emailAddress = try json["emailAddress"]?.string()
        phoneNumber = try json["phoneNumber"]?.string()
        userRecordName = try json["userRecordName"]?.string()
        guard emailAddress != nil || phoneNumber != nil || userRecordName != nil else {
            throw json.mismatch("emailAddress, phoneNumber or userRecordName")
        }
    }

    /// The parsed key; `nil` if it is not valid for any user.
    var lookup: UserLookup? {
        if let userRecordName { return .user(UserID(userRecordName)) }
        if let address = emailAddress.flatMap(AccountRules.canonicalEmail) { return .email(address) }
        return phoneNumber.flatMap(AccountRules.canonicalPhone).map { .phone($0) }
    }

    func write(to writer: inout JSONWriter) {
        if let emailAddress { writer.member("emailAddress", emailAddress) }
        if let phoneNumber { writer.member("phoneNumber", phoneNumber) }
        if let userRecordName { writer.member("userRecordName", userRecordName) }
    }
}

extension JSONWriter {
    /// Writes the members of a user identity into the open object.
    ///
    /// See Wire.md, "Users".
    mutating func identity(of user: UserID, _ name: PersonName) {
        member("userRecordName", user.recordName)
        key("nameComponents")
        object { writer in
            if let prefix = name.prefix { writer.member("namePrefix", prefix) }
            if let given = name.given { writer.member("givenName", given) }
            if let middle = name.middle { writer.member("middleName", middle) }
            if let family = name.family { writer.member("familyName", family) }
            if let suffix = name.suffix { writer.member("nameSuffix", suffix) }
            if let nickname = name.nickname { writer.member("nickname", nickname) }
        }
    }

    /// Writes the members of a user dictionary into the open object.
    ///
    /// See Wire.md, "Users".
    mutating func userDictionary(of user: UserID, _ name: PersonName) {
        member("userRecordName", user.recordName)
        key("firstName")
        if let given = name.given { string(given) } else { null() }
        key("lastName")
        if let family = name.family { string(family) } else { null() }
    }

    mutating func emptyList(_ name: StaticString) {
        key(name)
        array(EmptyCollection<Never>()) { _, _ in }
    }
}
