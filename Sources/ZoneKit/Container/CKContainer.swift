public import Foundation
import Records
import SyncCore
import Wire

/// An app's container: three databases and the signed-in user.
///
/// All containers of a process with the same identifier share a connection and an account. Creating a container is
/// cheap and never fails; the first request throws `badContainer` if no relay is configured (see `RelayEndpoint`).
public final class CKContainer: NSObject, Sendable {
    /// The identifier of the container, such as `iCloud.com.example.notes`.
    public let containerIdentifier: String?
    /// The database with the data of all users.
    public let publicCloudDatabase: CKDatabase
    /// The database with the current user's own data.
    public let privateCloudDatabase: CKDatabase
    /// The database with the data that other users share with the current user.
    public let sharedCloudDatabase: CKDatabase

    package let session: RelaySession

    /// Creates a container at the relay that is configured for it.
    public convenience init(identifier: String) {
        self.init(sharing: RelaySession(container: identifier))
    }

    /// Creates a container with its own relay and account, independent of the configuration of the process.
    ///
    /// - Parameters:
    ///   - identifier: The identifier of the container.
    ///   - endpoint: The relay and the credentials.
    public convenience init(identifier: String, endpoint: RelayEndpoint) {
        let connection = RelayConnection(container: identifier, endpoint: endpoint)
        self.init(sharing: RelaySession(container: identifier, connection: connection))
    }

    package convenience init(connection: RelayConnection) {
        self.init(sharing: RelaySession(container: connection.container, connection: connection))
    }

    package init(sharing session: RelaySession, settings: RequestSettings = RequestSettings()) {
        self.session = session
        containerIdentifier = session.container
        publicCloudDatabase = CKDatabase(.public, session, settings: settings)
        privateCloudDatabase = CKDatabase(.private, session, settings: settings)
        sharedCloudDatabase = CKDatabase(.shared, session, settings: settings)
    }

    /// Returns the app's default container.
    ///
    /// This is the first container that was configured by its identifier, else `ZONECAST_CONTAINER`, else a container
    /// named after the program.
    public static func `default`() -> CKContainer {
        CKContainer(identifier: RelayConfiguration.defaultContainer)
    }

    /// Sets the relay to use from now on.
    ///
    /// - Parameters:
    ///   - endpoint: The relay and the credentials.
    ///   - identifier: The container to use it for; `nil` for all containers without a relay of their own.
    public static func configure(_ endpoint: RelayEndpoint, for identifier: String? = nil) {
        RelayConfiguration.configure(endpoint, container: identifier)
    }

    /// Returns the database with a scope.
    public func database(with databaseScope: CKDatabase.Scope) -> CKDatabase {
        switch databaseScope {
        case .public: publicCloudDatabase
        case .private: privateCloudDatabase
        case .shared: sharedCloudDatabase
        }
    }

    /// The identifier of the container.
    public override var description: String { "<CKContainer: \(session.container)>" }

    /// Returns whether two containers have the same identifier and the same connection.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKContainer else { return false }
        return session.identity == other.session.identity
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { session.identity.hashValue }
}

/// The status of the user's account.
public enum CKAccountStatus: Int, Sendable {
    /// The status could not be determined.
    case couldNotDetermine = 0
    /// A user is signed in.
    case available = 1
    /// The user may not use this container.
    case restricted = 2
    /// No user is signed in.
    case noAccount = 3
    /// A user is signed in, but the relay cannot be reached or a new sign-in is needed.
    ///
    /// Don't delete the user's data.
    case temporarilyUnavailable = 4
}

extension Notification.Name {
    /// The container's user, or what is known about the user, may have changed.
    ///
    /// Call `accountStatus()` again. Posted to the default notification center, on the thread that caused the change.
    public static let CKAccountChanged = Notification.Name("CKAccountChangedNotification")
}

extension CKContainer {
    /// Signs in as another user, for all containers that share this container's connection.
    ///
    /// Sync engines notice the change at once, send `accountChange` to their delegates, and start again for the new
    /// account. Changes that are pending for the old account are never sent to the new one.
    ///
    /// - Parameter credential: The credential of the user.
    /// - Throws: `badContainer` if no relay is configured. The next request, or `accountStatus()`, reports whether the
    ///   relay accepts the credential.
    public func signIn(_ credential: RelayCredential) async throws {
        let connection = try session.connection()
        connection.credentials.replace(by: credential)
        connection.caller.forget(generation: connection.credentials.current.generation)
        connection.zoneKeys.forget()
        await connection.notices.accountReplaced()
        NotificationCenter.default.post(name: .CKAccountChanged, object: nil)
    }

    /// Signs out; see `signIn(_:)`.
    public func signOut() async throws { try await signIn(.nobody) }
}

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
    public func accountStatus() async throws -> CKAccountStatus { try await statusAndError().status }

    /// Returns the status, and the error that prevented the request.
    private func statusAndError() async throws(CKError) -> (status: CKAccountStatus, cause: CKError?) {
        let connection = try session.connection()
        guard connection.credentials.identifiesUser else { return (.noAccount, nil) }
        do throws(CKError) {
            _ = try await publicCloudDatabase.client.callerName()
            return (.available, nil)
        } catch {
            if let status = error.accountStatus { return (status, nil) }
            guard error.code != .operationCancelled, error.code != .badContainer else { throw error }
            session.retryAccountRequest(connection)
            return connection.caller.recordName == nil ? (.couldNotDetermine, error) : (.temporarilyUnavailable, nil)
        }
    }

    /// Returns the current user's record ID in this container.
    ///
    /// - Returns: An ID in the default zone. The user's record name is different in each container.
    /// - Throws: `notAuthenticated` if no user is signed in, and the errors of any request.
    public func userRecordID() async throws -> CKRecord.ID {
        CKRecord.ID(recordName: try await publicCloudDatabase.client.callerName())
    }

    /// Returns the status of the account; see `accountStatus()`.
    @preconcurrency
    public func accountStatus(completionHandler: @escaping @Sendable (CKAccountStatus, (any Error)?) -> Void) {
        Task(executorPreference: BlockingThreads.executor) {
            do {
                let (status, cause) = try await self.statusAndError()
                completionHandler(status, cause)
            } catch {
                completionHandler(.couldNotDetermine, error)
            }
        }
    }

    /// Fetches the current user's record ID; see `userRecordID()`.
    @preconcurrency
    public func fetchUserRecordID(completionHandler: @escaping @Sendable (CKRecord.ID?, (any Error)?) -> Void) {
        Task(executorPreference: BlockingThreads.executor) {
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
        setCallerName(callerName: name, generation: generation)
        return name
    }
}

extension RelaySession {
    /// Requests the current user's record name until there is a response, and then posts `CKAccountChanged`.
    fileprivate func retryAccountRequest(_ connection: RelayConnection) {
        guard connection.caller.beginWaitingForAccount() else { return }
        let conditions = connection.conditions ?? SyncConditions()
        let (time, container) = (conditions.time, container)
        // The session may be released in the meantime, and with it a test environment.
        conditions.time.start { [weak self, weak caller = connection.caller] in
            var (backoff, random) = (Backoff.requests, conditions.random)
            while (try? await time.sleep(time.now() + backoff.failed(using: &random))) != nil {
                guard let caller, caller.isWaitingForAccount,
                    let connection = (try? self?.connection()) ?? RelayConfiguration.connection(for: container),
                    connection.caller === caller
                else { return }
                await connection.requestAccount()
            }
        }
    }
}

extension RelayConnection {
    /// Requests the current user's record name.
    ///
    /// A response ends the wait.
    fileprivate func requestAccount() async {
        do throws(CKError) {
            _ = try await fetchCallerName()
        } catch {
            if error.accountStatus != nil { caller.endWaitingForAccount() }
        }
    }
}

extension CKError {
    /// The account status that the error implies; `nil` if it implies none.
    fileprivate var accountStatus: CKAccountStatus? {
        switch code {
        case .notAuthenticated: appReportsSignedOut ? .noAccount : .temporarilyUnavailable
        case .permissionFailure, .managedAccountRestricted: .restricted
        default: nil
        }
    }
}
