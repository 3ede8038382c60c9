import Foundation
import Wire

extension CKContainer {
    /// Returns the users that the relay finds, in the order of `lookups`; `nil` for those that it does not find.
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

    /// Returns participants to invite to a share, by any of their addresses.
    ///
    /// - Parameter lookupInfos: The addresses or record IDs of the users.
    /// - Returns: A new participant for each address. A person who is unknown to the relay or not discoverable can be
    ///   invited too; the invitation is assigned to them when they first sign in with that address.
    /// - Throws: An error that concerns the request as a whole.
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

    /// Returns participants to invite, by their email addresses; see `shareParticipants(for:)`.
    public func shareParticipants(
        forEmailAddresses emails: [String]
    ) async throws -> [String: Result<CKShare.Participant, any Error>] {
        let infos = emails.map { CKUserIdentity.LookupInfo(emailAddress: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(emails, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// Returns participants to invite, by their phone numbers; see `shareParticipants(for:)`.
    public func shareParticipants(
        forPhoneNumbers phoneNumbers: [String]
    ) async throws -> [String: Result<CKShare.Participant, any Error>] {
        let infos = phoneNumbers.map { CKUserIdentity.LookupInfo(phoneNumber: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(phoneNumbers, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// Returns participants to invite, by their user record IDs; see `shareParticipants(for:)`.
    public func shareParticipants(
        forUserRecordIDs userRecordIDs: [CKRecord.ID]
    ) async throws -> [CKRecord.ID: Result<CKShare.Participant, any Error>] {
        let infos = userRecordIDs.map { CKUserIdentity.LookupInfo(userRecordID: $0) }
        let results = try await shareParticipants(for: infos)
        return Dictionary(zip(userRecordIDs, infos.compactMap { results[$0] })) { first, _ in first }
    }

    /// Returns a participant to invite, by their email address; see `shareParticipants(for:)`.
    public func shareParticipant(forEmailAddress emailAddress: String) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(emailAddress: emailAddress))
    }

    /// Returns a participant to invite, by their phone number; see `shareParticipants(for:)`.
    public func shareParticipant(forPhoneNumber phoneNumber: String) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(phoneNumber: phoneNumber))
    }

    /// Returns a participant to invite, by their user record ID; see `shareParticipants(for:)`.
    public func shareParticipant(forUserRecordID userRecordID: CKRecord.ID) async throws -> CKShare.Participant {
        try await participant(CKUserIdentity.LookupInfo(userRecordID: userRecordID))
    }

    private func participant(_ info: CKUserIdentity.LookupInfo) async throws -> CKShare.Participant {
        guard let result = try await shareParticipants(for: [info])[info] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    // MARK: Users

    /// Returns the user with an email address; `nil` if no discoverable user has it.
    public func userIdentity(forEmailAddress email: String) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(emailAddress: email))
    }

    /// Returns the user with a phone number; `nil` if no discoverable user has it.
    public func userIdentity(forPhoneNumber phoneNumber: String) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(phoneNumber: phoneNumber))
    }

    /// Returns the user with a record ID; `nil` if no discoverable user has it.
    public func userIdentity(forUserRecordID userRecordID: CKRecord.ID) async throws -> CKUserIdentity? {
        try await identity(CKUserIdentity.LookupInfo(userRecordID: userRecordID))
    }

    /// Returns the users with some email addresses.
    ///
    /// Users who are unknown or not discoverable are omitted.
    public func userIdentities(forEmailAddresses emails: [String]) async throws -> [String: CKUserIdentity] {
        try await identities(emails) { CKUserIdentity.LookupInfo(emailAddress: $0) }
    }

    /// Returns the users with some phone numbers; see `userIdentities(forEmailAddresses:)`.
    public func userIdentities(forPhoneNumbers phoneNumbers: [String]) async throws -> [String: CKUserIdentity] {
        try await identities(phoneNumbers) { CKUserIdentity.LookupInfo(phoneNumber: $0) }
    }

    /// Returns the users with some record IDs; see `userIdentities(forEmailAddresses:)`.
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

    /// Returns all users in the address book.
    ///
    /// The relay has no address book, so the result is empty.
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

    /// The older names of the permission types.
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

    /// Permissions of an app beyond its own data.
    public struct ApplicationPermissions: OptionSet, Sendable {
        /// The raw value of the set.
        public let rawValue: UInt
        /// Creates a set from a raw value.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Finding users by their addresses.
        public static let userDiscoverability = ApplicationPermissions(rawValue: 1)
    }

    /// The status of a permission.
    public enum ApplicationPermissionStatus: Int, Sendable {
        /// The user has not decided.
        case initialState = 0
        /// The status could not be determined.
        case couldNotComplete = 1
        /// The permission is denied.
        case denied = 2
        /// The permission is granted.
        case granted = 3
    }

    /// A block that receives the status of a permission.
    public typealias ApplicationPermissionBlock = (ApplicationPermissionStatus, (any Error)?) -> Void

    /// Returns the status of a permission: granted for every signed-in user, because the relay decides about each user
    /// itself.
    public func applicationPermissionStatus(
        for applicationPermission: ApplicationPermissions
    ) async throws -> ApplicationPermissionStatus {
        try await accountStatus() == .available ? .granted : .couldNotComplete
    }

    /// Requests a permission; see `applicationPermissionStatus(for:)`.
    public func requestApplicationPermission(
        _ applicationPermission: ApplicationPermissions
    ) async throws -> ApplicationPermissionStatus {
        try await applicationPermissionStatus(for: applicationPermission)
    }
}

extension ClientIdentity {
    /// Returns whether the identity matches a lookup.
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
