import Foundation

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
        runOptional(completionHandler) { try await self.userIdentity(forEmailAddress: email) }
    }

    /// Finds a user; see `userIdentity(forPhoneNumber:)`.
    @preconcurrency
    public func discoverUserIdentity(
        withPhoneNumber phoneNumber: String,
        completionHandler: @escaping @Sendable (CKUserIdentity?, (any Error)?) -> Void
    ) {
        runOptional(completionHandler) { try await self.userIdentity(forPhoneNumber: phoneNumber) }
    }

    /// Finds a user; see `userIdentity(forUserRecordID:)`.
    @preconcurrency
    public func discoverUserIdentity(
        withUserRecordID userRecordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKUserIdentity?, (any Error)?) -> Void
    ) {
        runOptional(completionHandler) { try await self.userIdentity(forUserRecordID: userRecordID) }
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
        runPermission(completionHandler) { try await self.applicationPermissionStatus(for: applicationPermission) }
    }

    /// Requests a permission; see `requestApplicationPermission(_:)`.
    @preconcurrency
    public func requestApplicationPermission(
        _ applicationPermission: ApplicationPermissions,
        completionHandler: @escaping @Sendable (ApplicationPermissionStatus, (any Error)?) -> Void
    ) {
        runPermission(completionHandler) { try await self.requestApplicationPermission(applicationPermission) }
    }

    private func runOptional<Value>(
        _ completionHandler: @escaping @Sendable (Value?, (any Error)?) -> Void,
        _ body: @escaping @Sendable () async throws -> sending Value?
    ) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(try await body(), nil)
            } catch {
                completionHandler(nil, error)
            }
        }
    }

    private func runPermission(
        _ completionHandler: @escaping @Sendable (ApplicationPermissionStatus, (any Error)?) -> Void,
        _ body: @escaping @Sendable () async throws -> ApplicationPermissionStatus
    ) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(try await body(), nil)
            } catch {
                completionHandler(.couldNotComplete, error)
            }
        }
    }
}
