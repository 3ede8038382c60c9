import Foundation
import Records
import Wire

extension CKContainer {
    /// Whether there is a user to speak for, as the relay sees it now.
    ///
    /// - Returns: `noAccount` without asking when no web auth token is configured; `temporarilyUnavailable` when a user
    ///   who was known before cannot be asked about.
    /// - Throws: `badContainer` when no relay is configured.
    public func accountStatus() async throws -> CKAccountStatus {
        let connection = try session.connection()
        guard connection.credentials.namesUser else { return .noAccount }
        do {
            _ = try await connection.fetchCallerName()
            return .available
        } catch {
            switch error.code {
            case .notAuthenticated: return .noAccount
            case .permissionFailure, .managedAccountRestricted: return .restricted
            case .operationCancelled, .badContainer: throw error
            default: return connection.caller.recordName == nil ? .couldNotDetermine : .temporarilyUnavailable
            }
        }
    }

    /// The current user's record ID in this container.
    ///
    /// - Returns: An ID in the default zone; its name is the user's own, different in each container.
    /// - Throws: `notAuthenticated` when nobody is signed in, and what any call throws.
    public func userRecordID() async throws -> CKRecord.ID {
        CKRecord.ID(recordName: try await session.connection().fetchCallerName())
    }

    /// The same as `accountStatus()`, for callers without tasks.
    @preconcurrency
    public func accountStatus(completionHandler: @escaping @Sendable (CKAccountStatus, (any Error)?) -> Void) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(try await self.accountStatus(), nil)
            } catch {
                completionHandler(.couldNotDetermine, error)
            }
        }
    }

    /// The same as `userRecordID()`, for callers without tasks.
    @preconcurrency
    public func fetchUserRecordID(completionHandler: @escaping @Sendable (CKRecord.ID?, (any Error)?) -> Void) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(try await self.userRecordID(), nil)
            } catch {
                completionHandler(nil, error)
            }
        }
    }
}

extension RelayConnection {
    /// Asks who the caller is, and remembers it.
    package func fetchCallerName() async throws(CKError) -> String {
        let generation = credentials.current.generation
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await send(RelayCall(.public, "users/caller"))
        } catch {
            throw error.error
        }
        let name = try reading { () throws(JSONError) in try document.root.required("userRecordName").string() }
        learn(callerName: name, generation: generation)
        return name
    }
}
