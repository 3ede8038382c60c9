import Foundation
import Wire

extension CKContainer {
    /// The users that the relay knows by these, in the order of `lookups`; `nil` for those it does not.
    func identities(_ lookups: [CKUserIdentity.LookupInfo]) async throws(CKError) -> [ClientIdentity?] {
        guard !lookups.isEmpty else { return [] }
        let document = try await publicCloudDatabase.call(
            "users/discover",
            ClientRequest.discover(lookups.map(\.lookup))
        )
        let users = try reading { () throws(JSONError) in try ClientResponse.users(document.root) }
        return lookups.map { info in users.first { $0.answers(info.lookup) } }
    }

    // MARK: Participants to invite

    /// Somebody to invite, by any of their addresses.
    ///
    /// - Parameter lookupInfos: By what they are looked for.
    /// - Returns: For each a new participant. Somebody whom the relay does not know by an address, or who does not let
    ///   others find them, can be invited too, and is bound to the address when they first sign in with it.
    /// - Throws: What concerns the request as a whole.
    public func shareParticipants(
        for lookupInfos: [CKUserIdentity.LookupInfo]
    ) async throws -> [CKUserIdentity.LookupInfo: Result<CKShare.Participant, any Error>] {
        let name = try session.connection().caller.recordName
        var results: [CKUserIdentity.LookupInfo: Result<CKShare.Participant, any Error>] = [:]
        for (info, identity) in zip(lookupInfos, try await identities(lookupInfos)) {
            var named = identity ?? ClientIdentity()
            named.lookup = named.lookup ?? info.lookup
            named.userRecordName = named.userRecordName ?? info.lookup.userRecordName
            results[info] = .success(CKShare.Participant(inviting: named, callerName: name))
        }
        return results
    }

    /// People to invite, by their e-mail addresses; see `shareParticipants(for:)`.
    public func shareParticipants(
        forEmailAddresses emails: [String]
    ) async throws -> [String: Result<CKShare.Participant, any Error>] {
        let infos = emails.map { CKUserIdentity.LookupInfo(emailAddress: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(emails, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// People to invite, by their telephone numbers; see `shareParticipants(for:)`.
    public func shareParticipants(
        forPhoneNumbers phoneNumbers: [String]
    ) async throws -> [String: Result<CKShare.Participant, any Error>] {
        let infos = phoneNumbers.map { CKUserIdentity.LookupInfo(phoneNumber: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(phoneNumbers, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// People to invite, by their user records; see `shareParticipants(for:)`.
    public func shareParticipants(
        forUserRecordIDs userRecordIDs: [CKRecord.ID]
    ) async throws -> [CKRecord.ID: Result<CKShare.Participant, any Error>] {
        let infos = userRecordIDs.map { CKUserIdentity.LookupInfo(userRecordID: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(userRecordIDs, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// Somebody to invite, by their e-mail address; see `shareParticipants(for:)`.
    public func shareParticipant(forEmailAddress emailAddress: String) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(emailAddress: emailAddress))
    }

    /// Somebody to invite, by their telephone number; see `shareParticipants(for:)`.
    public func shareParticipant(forPhoneNumber phoneNumber: String) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(phoneNumber: phoneNumber))
    }

    /// Somebody to invite, by their user record; see `shareParticipants(for:)`.
    public func shareParticipant(forUserRecordID userRecordID: CKRecord.ID) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(userRecordID: userRecordID))
    }

    private func participant(_ info: CKUserIdentity.LookupInfo) async throws -> CKShare.Participant {
        guard let result = try await shareParticipants(for: [info])[info] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    // MARK: Users

    /// The user of an e-mail address; `nil` if the relay knows none who may be found.
    public func userIdentity(forEmailAddress email: String) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(emailAddress: email))
    }

    /// The user of a telephone number; `nil` if the relay knows none who may be found.
    public func userIdentity(forPhoneNumber phoneNumber: String) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(phoneNumber: phoneNumber))
    }

    /// The user of a record; `nil` if the relay knows none who may be found.
    public func userIdentity(forUserRecordID userRecordID: CKRecord.ID) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(userRecordID: userRecordID))
    }

    /// The users of some e-mail addresses; those whom the relay does not know, or who may not be found, are left out.
    public func userIdentities(forEmailAddresses emails: [String]) async throws -> [String: CKUserIdentity] {
        try await identities(emails) { CKUserIdentity.LookupInfo(emailAddress: $0) }
    }

    /// The users of some telephone numbers; see `userIdentities(forEmailAddresses:)`.
    public func userIdentities(forPhoneNumbers phoneNumbers: [String]) async throws -> [String: CKUserIdentity] {
        try await identities(phoneNumbers) { CKUserIdentity.LookupInfo(phoneNumber: $0) }
    }

    /// The users of some records; see `userIdentities(forEmailAddresses:)`.
    public func userIdentities(
        forUserRecordIDs userRecordIDs: [CKRecord.ID]
    ) async throws -> [CKRecord.ID: CKUserIdentity] {
        try await identities(userRecordIDs) { CKUserIdentity.LookupInfo(userRecordID: $0) }
    }

    private func identities<Key: Hashable>(
        _ keys: [Key],
        _ info: (Key) -> CKUserIdentity.LookupInfo
    ) async throws(CKError) -> [Key: CKUserIdentity] {
        let found = try await identities(keys.map(info))
        let name = try session.connection().caller.recordName
        return zip(keys, found).reduce(into: [:]) { users, pair in
            if let identity = pair.1 { users[pair.0] = CKUserIdentity(identity, callerName: name) }
        }
    }

    /// All users whom the relay lets the current one find; it has no address book, so there are none.
    public func allUserIdentitiesFromContacts() async throws -> [CKUserIdentity] {
        let document = try await publicCloudDatabase.call("users/discover")
        let users = try reading { () throws(JSONError) in try ClientResponse.users(document.root) }
        let name = try session.connection().caller.recordName
        return users.map { CKUserIdentity($0, callerName: name) }
    }

    private func identity(_ info: CKUserIdentity.LookupInfo) async throws -> CKUserIdentity? {
        guard let found = try await identities([info]).first ?? nil else { return nil }
        return CKUserIdentity(found, callerName: try session.connection().caller.recordName)
    }

    // MARK: Permissions

    /// The older names of what is about permissions.
    public enum Application {
        /// The older name of `ApplicationPermissions`.
        public typealias Permissions = ApplicationPermissions
        /// The older name of `ApplicationPermissionStatus`.
        public typealias PermissionStatus = ApplicationPermissionStatus
        /// The older name of `ApplicationPermissionBlock`.
        public typealias PermissionBlock = ApplicationPermissionBlock
    }

    /// The older name of `ApplicationPermissions`.
    public typealias Application_Permissions = ApplicationPermissions

    /// What a program may be allowed beside its own data.
    public struct ApplicationPermissions: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// To find users by their addresses.
        public static let userDiscoverability = ApplicationPermissions(rawValue: 1)
    }

    /// Whether a program is allowed something.
    public enum ApplicationPermissionStatus: Int, Sendable {
        /// Nobody has said.
        case initialState = 0
        /// It could not be found out.
        case couldNotComplete = 1
        /// No.
        case denied = 2
        /// Yes.
        case granted = 3
    }

    /// Hears whether a program is allowed something.
    public typealias ApplicationPermissionBlock = (ApplicationPermissionStatus, (any Error)?) -> Void

    /// What the program is allowed: the relay decides about each user itself, so yes for whoever is signed in.
    public func applicationPermissionStatus(
        for applicationPermission: ApplicationPermissions
    ) async throws -> ApplicationPermissionStatus {
        try await accountStatus() == .available ? .granted : .couldNotComplete
    }

    /// Asks to be allowed something; see `applicationPermissionStatus(for:)`.
    public func requestApplicationPermission(
        _ applicationPermission: ApplicationPermissions
    ) async throws -> ApplicationPermissionStatus {
        try await applicationPermissionStatus(for: applicationPermission)
    }
}

extension ClientIdentity {
    /// Whether this is who was looked for.
    fileprivate func answers(_ wanted: Lookup) -> Bool {
        if let name = wanted.userRecordName { return userRecordName == name || lookup?.userRecordName == name }
        guard wanted.emailAddress != nil || wanted.phoneNumber != nil else { return false }
        return isSamePerson(as: ClientIdentity(lookup: wanted))
    }
}

/// The older name of `CKContainer.ApplicationPermissions`.
public typealias CKContainer_Application_Permissions = CKContainer.ApplicationPermissions

/// The older name of `CKContainer.ApplicationPermissionStatus`.
public typealias CKContainer_Application_PermissionStatus = CKContainer.ApplicationPermissionStatus

/// The older name of `CKContainer.ApplicationPermissionBlock`.
public typealias CKContainer_Application_PermissionBlock = CKContainer.ApplicationPermissionBlock
