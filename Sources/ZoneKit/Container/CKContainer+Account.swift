import Foundation
import Records
import SyncCore
import Wire

extension CKContainer {
    /// Whether there is a user to speak for, as the relay sees it now.
    ///
    /// Where the relay cannot be asked now, it is asked again until it answers, and `CKAccountChanged` is posted then.
    ///
    /// - Returns: `noAccount` without asking when nobody is named; `couldNotDetermine` when the relay cannot be asked, and
    ///   `temporarilyUnavailable` when that is so of a user who was known before, or when a sign-in has ended: what is theirs
    ///   waits until they sign in again.
    /// - Throws: `badContainer` when no relay is configured.
    public func accountStatus() async throws -> CKAccountStatus { try await statusAndTrouble().status }

    /// With what keeps it from being found out.
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
                let (status, trouble) = try await self.statusAndTrouble()
                completionHandler(status, trouble)
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

extension RelaySession {
    /// Asks who the user is until there is an answer, and posts `CKAccountChanged` then: whoever was told that it could not
    /// be found out waits for that.
    fileprivate func awaitAccount(_ connection: RelayConnection) {
        guard connection.caller.beginAwaiting() else { return }
        let conditions = connection.conditions ?? SyncConditions()
        let (time, container) = (conditions.time, container)
        // A container of its own may go meanwhile, and a test's world with it.
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
    /// Takes the answer, if there is one, as the end of the wait.
    fileprivate func askForAccount() async {
        do throws(CKError) {
            _ = try await fetchCallerName()
        } catch {
            if error.accountStatus != nil { caller.endAwaiting() }
        }
    }
}

extension CKError {
    /// What it says of the account; `nil` where it says nothing.
    fileprivate var accountStatus: CKAccountStatus? {
        switch code {
        case .notAuthenticated: saysNobodySignedIn ? .noAccount : .temporarilyUnavailable
        case .permissionFailure, .managedAccountRestricted: .restricted
        default: nil
        }
    }
}
