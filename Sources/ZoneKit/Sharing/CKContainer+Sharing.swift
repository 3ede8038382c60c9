public import Foundation
import Records
import Wire

extension CKContainer {
    // MARK: Shares by their URLs

    /// Fetches the metadata of a share by its URL, before or after accepting it.
    ///
    /// - Parameter url: The URL of the share; see `CKShare.url`.
    /// - Returns: The metadata that the current user may see.
    /// - Throws: `unknownItem` if the share does not exist, `permissionFailure` if it is not for the current user, and
    ///   the errors of any request.
    public func shareMetadata(for url: URL) async throws -> CKShare.Metadata {
        let results = try await shareMetadatas(for: [url])
        guard let result = results[url] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Fetches the metadata of shares by their URLs.
    ///
    /// - Parameter urls: The URLs of the shares.
    /// - Returns: The metadata or an error for each URL.
    /// - Throws: An error that concerns the request as a whole.
    public func shareMetadatas(for urls: [URL]) async throws -> [URL: Result<CKShare.Metadata, any Error>] {
        try await shareMetadatas(for: urls, fetchingRoots: false, rootKeys: nil)
    }

    package func shareMetadatas(
        for urls: [URL],
        fetchingRoots: Bool,
        rootKeys: [CKRecord.FieldKey]?
    ) async throws(CKError) -> [URL: Result<CKShare.Metadata, any Error>] {
        let call = ShareCall.resolve(urls.map(\.lastPathComponent), fetchingRoots: fetchingRoots, rootKeys: rootKeys)
        let metadatas = try await metadatas(call, count: urls.count)
        return Dictionary(zip(urls, metadatas)) { first, _ in first }
    }

    /// Accepts a share, so that its zone appears in the shared database.
    ///
    /// - Parameter metadata: The metadata of the share, from `shareMetadata(for:)`.
    /// - Returns: The share with the current user as a participant.
    /// - Throws: `unknownItem`, `permissionFailure`, `participantMayNeedVerification`, and the errors of any request.
    @discardableResult
    public func accept(_ metadata: CKShare.Metadata) async throws -> CKShare {
        let results = try await accept([metadata])
        guard let result = results[metadata] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Accepts shares.
    ///
    /// - Parameter metadatas: The metadata of the shares.
    /// - Returns: The result of each share.
    /// - Throws: An error that concerns the request as a whole.
    public func accept(
        _ metadatas: [CKShare.Metadata]
    ) async throws -> [CKShare.Metadata: Result<CKShare, any Error>] {
        // Publish the key first: when the owner learns of the new participant, the owner's device provides the zone
        // keys.
        await privateCloudDatabase.keys.publishKey()
        let results = try await self.metadatas(.accept(metadatas.map(\.shortGUID)), count: metadatas.count)
        let shares = results.map { result in result.map(\.share) }
        let zones = shares.compactMap { try? $0.get().recordID.zoneID.zone }
        let connection = try? privateCloudDatabase.session.connection()
        for zone in zones { connection?.didAcceptShare(zone) }
        await tellOfArrival(zones)
        return Dictionary(zip(metadatas, shares)) { first, _ in first }
    }

    /// Reports the new zones to the engines of this device, because the relay sends them no notice.
    private func tellOfArrival(_ zones: [ZoneID]) async {
        guard !zones.isEmpty, let multiplexer = try? privateCloudDatabase.session.connection().notices else { return }
        await multiplexer.changed(Set(zones), in: .shared, by: nil)
    }

    /// Asks the owners of shares for access.
    ///
    /// - Parameter urls: The URLs of the shares.
    /// - Returns: The result of each request. A share that accepts no requests fails with `unknownItem`, as if it did
    ///   not exist.
    /// - Throws: An error that concerns the request as a whole.
    public func requestShareAccess(for urls: [URL]) async throws -> [URL: Result<Void, any Error>] {
        try await requestAccess(urls)
    }

    package func requestAccess(_ urls: [URL]) async throws(CKError) -> [URL: Result<Void, any Error>] {
        guard !urls.isEmpty else { return [:] }
        let failures = try await publicCloudDatabase.client.requestAccess(toShares: urls.map(\.lastPathComponent))
        return zip(urls, failures).reduce(into: [:]) { results, pair in
            results[pair.0] = pair.1.map { .failure(CKError($0, at: .item)) } ?? .success(())
        }
    }

    /// Returns one result for each share.
    private func metadatas(
        _ call: ShareCall,
        count: Int
    ) async throws(CKError) -> [Result<CKShare.Metadata, any Error>] {
        guard count > 0 else { return [] }
        let connection = try await publicCloudDatabase.connectionResolvingCaller()
        let reader = RecordReader(scope: .public, caller: connection.caller)
        let entries = try await publicCloudDatabase.client.shares(call)
        let missing = CKError(.internalError, "The relay's response does not contain this share.")
        return (0..<count).map { place in
            guard place < entries.count else { return .failure(missing) }
            switch entries[place] {
            case .failed(let failure): return .failure(CKError(failure, at: .item))
            case .found(let thing): return Self.metadata(thing, reader)
            }
        }
    }

    private static func metadata(
        _ thing: ClientResponse.ShareMetadata,
        _ reader: RecordReader
    ) -> Result<CKShare.Metadata, any Error> {
        var reader = reader
        reader.scope = thing.scope
        let zoneID = reader.zoneID(thing.zone)
        guard let found = thing.share, let share = reader.record(found.record, found.details) as? CKShare else {
            return .failure(CKError(.internalError, "The relay's response does not contain the share record."))
        }
        let root = thing.rootRecord.map { reader.record($0) }
        return .success(
            CKShare.Metadata(
                thing,
                share: share,
                rootRecord: root,
                zoneID: zoneID,
                callerName: reader.caller.recordName
            )
        )
    }
}

extension CKContainer {
    // MARK: Variants for callers without tasks

    /// Fetches the metadata of a share by its URL; see `shareMetadata(for:)`.
    @preconcurrency
    public func fetchShareMetadata(
        with url: URL,
        completionHandler: @escaping @Sendable (CKShare.Metadata?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareMetadata(for: url) }
    }

    /// Fetches the metadata of shares by their URLs; see `shareMetadatas(for:)`.
    @preconcurrency
    public func fetchShareMetadatas(
        for urls: [URL],
        completionHandler: @escaping @Sendable (Result<[URL: Result<CKShare.Metadata, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareMetadatas(for: urls) }
    }

    /// Accepts a share; see `accept(_:)`.
    @preconcurrency
    public func accept(
        _ metadata: CKShare.Metadata,
        completionHandler: @escaping @Sendable (CKShare?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.accept(metadata) }
    }

    /// Accepts shares; see `accept(_:)`.
    @preconcurrency
    public func accept(
        _ metadatas: [CKShare.Metadata],
        completionHandler:
            @escaping @Sendable (Result<[CKShare.Metadata: Result<CKShare, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.accept(metadatas) }
    }
}

extension CKContainer {
    /// Returns the users that the relay finds, in the order of `lookups`; `nil` for those that it does not find.
    func identities(_ lookups: [CKUserIdentity.LookupInfo]) async throws(CKError) -> [ClientIdentity?] {
        guard !lookups.isEmpty else { return [] }
        let users = try await publicCloudDatabase.client.users(lookups.map(\.lookup))
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
        let users = try await publicCloudDatabase.client.users(nil)
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

/// Variants of the async methods for users and participants, for callers without tasks.
///
/// Each method does the same as the async method named in its description. It calls its completion handler once, on any
/// thread, with a value or an error.
extension CKContainer {
    /// Fetches a participant to invite; see `shareParticipant(forEmailAddress:)`.
    @preconcurrency
    public func fetchShareParticipant(
        withEmailAddress emailAddress: String,
        completionHandler: @escaping @Sendable (CKShare.Participant?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) {
            try await self.shareParticipant(forEmailAddress: emailAddress)
        }
    }

    /// Fetches a participant to invite; see `shareParticipant(forPhoneNumber:)`.
    @preconcurrency
    public func fetchShareParticipant(
        withPhoneNumber phoneNumber: String,
        completionHandler: @escaping @Sendable (CKShare.Participant?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareParticipant(forPhoneNumber: phoneNumber) }
    }

    /// Fetches a participant to invite; see `shareParticipant(forUserRecordID:)`.
    @preconcurrency
    public func fetchShareParticipant(
        withUserRecordID userRecordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKShare.Participant?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareParticipant(forUserRecordID: userRecordID) }
    }

    /// Fetches participants to invite; see `shareParticipants(for:)`.
    @preconcurrency
    public func fetchShareParticipants(
        for lookupInfos: [CKUserIdentity.LookupInfo],
        completionHandler:
            @escaping @Sendable (
                Result<[CKUserIdentity.LookupInfo: Result<CKShare.Participant, any Error>], any Error>
            ) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareParticipants(for: lookupInfos) }
    }

    /// Fetches participants to invite; see `shareParticipants(forEmailAddresses:)`.
    @preconcurrency
    public func fetchShareParticipants(
        forEmailAddresses emails: [String],
        completionHandler:
            @escaping @Sendable (Result<[String: Result<CKShare.Participant, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareParticipants(forEmailAddresses: emails) }
    }

    /// Fetches participants to invite; see `shareParticipants(forPhoneNumbers:)`.
    @preconcurrency
    public func fetchShareParticipants(
        forPhoneNumbers phoneNumbers: [String],
        completionHandler:
            @escaping @Sendable (Result<[String: Result<CKShare.Participant, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareParticipants(forPhoneNumbers: phoneNumbers) }
    }

    /// Fetches participants to invite; see `shareParticipants(forUserRecordIDs:)`.
    @preconcurrency
    public func fetchShareParticipants(
        forUserRecordIDs userRecordIDs: [CKRecord.ID],
        completionHandler:
            @escaping @Sendable (Result<[CKRecord.ID: Result<CKShare.Participant, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) {
            try await self.shareParticipants(forUserRecordIDs: userRecordIDs)
        }
    }

    /// Finds a user; see `userIdentity(forEmailAddress:)`.
    @preconcurrency
    public func discoverUserIdentity(
        withEmailAddress email: String,
        completionHandler: @escaping @Sendable (CKUserIdentity?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentity(forEmailAddress: email) }
    }

    /// Finds a user; see `userIdentity(forPhoneNumber:)`.
    @preconcurrency
    public func discoverUserIdentity(
        withPhoneNumber phoneNumber: String,
        completionHandler: @escaping @Sendable (CKUserIdentity?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentity(forPhoneNumber: phoneNumber) }
    }

    /// Finds a user; see `userIdentity(forUserRecordID:)`.
    @preconcurrency
    public func discoverUserIdentity(
        withUserRecordID userRecordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKUserIdentity?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentity(forUserRecordID: userRecordID) }
    }

    /// Finds users; see `userIdentities(forEmailAddresses:)`.
    @preconcurrency
    public func discoverUserIdentities(
        forEmailAddresses emails: [String],
        completionHandler: @escaping @Sendable (Result<[String: CKUserIdentity], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentities(forEmailAddresses: emails) }
    }

    /// Finds users; see `userIdentities(forPhoneNumbers:)`.
    @preconcurrency
    public func discoverUserIdentities(
        forPhoneNumbers phoneNumbers: [String],
        completionHandler: @escaping @Sendable (Result<[String: CKUserIdentity], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentities(forPhoneNumbers: phoneNumbers) }
    }

    /// Finds users; see `userIdentities(forUserRecordIDs:)`.
    @preconcurrency
    public func discoverUserIdentities(
        forUserRecordIDs userRecordIDs: [CKRecord.ID],
        completionHandler: @escaping @Sendable (Result<[CKRecord.ID: CKUserIdentity], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.userIdentities(forUserRecordIDs: userRecordIDs) }
    }

    /// Finds all users in the address book; see `allUserIdentitiesFromContacts()`.
    @preconcurrency
    public func discoverAllIdentities(
        completionHandler: @escaping @Sendable ([CKUserIdentity]?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.allUserIdentitiesFromContacts() }
    }

    /// Fetches the status of a permission; see `applicationPermissionStatus(for:)`.
    @preconcurrency
    public func status(
        forApplicationPermission applicationPermission: ApplicationPermissions,
        completionHandler: @escaping @Sendable (ApplicationPermissionStatus, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run({ completionHandler($0 ?? .couldNotComplete, $1) }) {
            try await self.applicationPermissionStatus(for: applicationPermission)
        }
    }

    /// Requests a permission; see `requestApplicationPermission(_:)`.
    @preconcurrency
    public func requestApplicationPermission(
        _ applicationPermission: ApplicationPermissions,
        completionHandler: @escaping @Sendable (ApplicationPermissionStatus, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run({ completionHandler($0 ?? .couldNotComplete, $1) }) {
            try await self.requestApplicationPermission(applicationPermission)
        }
    }
}
