import Foundation
import Records
import SyncCore
import Wire

extension CKContainer {
    /// Returns the status of the current user's account.
    ///
    /// If the relay cannot be reached, the SDK repeats the request in the background and posts `CKAccountChanged` when
    /// it gets a response.
    ///
    /// - Returns: `noAccount`, without a request, if there are no credentials of a user. `couldNotDetermine` if the
    ///   relay cannot be reached. `temporarilyUnavailable` if the relay cannot be reached but the user was known
    ///   before, or if the sign-in has expired; the user's data stay pending until the user signs in again.
    /// - Throws: `badContainer` if no relay is configured.
    public func accountStatus() async throws -> CKAccountStatus { try await statusAndTrouble().status }

    /// Returns the status, and the error that prevented the request.
    private func statusAndTrouble() async throws(CKError) -> (status: CKAccountStatus, trouble: CKError?) {
        let connection = try session.connection()
        guard connection.credentials.namesUser else { return (.noAccount, nil) }
        do throws(CKError) {
            _ = try await connection.fetchCallerName()
            return (.available, nil)
        } catch {
            if let status = error.accountStatus { return (status, nil) }
            guard error.code != .operationCancelled, error.code != .badContainer else { throw error }
            session.awaitAccount(connection)
            return connection.caller.recordName == nil ? (.couldNotDetermine, error) : (.temporarilyUnavailable, nil)
        }
    }

    /// Returns the current user's record ID in this container.
    ///
    /// - Returns: An ID in the default zone. The user's record name is different in each container.
    /// - Throws: `notAuthenticated` if no user is signed in, and the errors of any request.
    public func userRecordID() async throws -> CKRecord.ID {
        CKRecord.ID(recordName: try await session.connection().fetchCallerName())
    }

    /// Returns the status of the account; see `accountStatus()`.
    @preconcurrency
    public func accountStatus(completionHandler: @escaping @Sendable (CKAccountStatus, (any Error)?) -> Void) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                let (status, trouble) = try await self.statusAndTrouble()
                completionHandler(status, trouble)
            } catch {
                completionHandler(.couldNotDetermine, error)
            }
        }
    }

    /// Fetches the current user's record ID; see `userRecordID()`.
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
    /// Requests the current user's record name and stores it.
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

extension RelaySession {
    /// Requests the current user's record name until there is a response, and then posts `CKAccountChanged`.
    fileprivate func awaitAccount(_ connection: RelayConnection) {
        guard connection.caller.beginAwaiting() else { return }
        let conditions = connection.conditions ?? SyncConditions()
        let (time, container) = (conditions.time, container)
        // The session may be released in the meantime, and with it a test environment.
        conditions.time.start { [weak self, weak caller = connection.caller] in
            var (backoff, chance) = (Backoff.requests, conditions.chance)
            while (try? await time.sleep(time.now() + backoff.failed(using: &chance))) != nil {
                guard let caller, caller.isAwaited,
                    let connection = (try? self?.connection()) ?? ConfiguredRelays.connection(for: container),
                    connection.caller === caller
                else { return }
                await connection.askForAccount()
            }
        }
    }
}

extension RelayConnection {
    /// Requests the current user's record name.
    ///
    /// A response ends the wait.
    fileprivate func askForAccount() async {
        do throws(CKError) {
            _ = try await fetchCallerName()
        } catch {
            if error.accountStatus != nil { caller.endAwaiting() }
        }
    }
}

extension CKError {
    /// The account status that the error implies; `nil` if it implies none.
    fileprivate var accountStatus: CKAccountStatus? {
        switch code {
        case .notAuthenticated: saysNobodySignedIn ? .noAccount : .temporarilyUnavailable
        case .permissionFailure, .managedAccountRestricted: .restricted
        default: nil
        }
    }
}
