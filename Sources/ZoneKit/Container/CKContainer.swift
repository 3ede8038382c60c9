public import Foundation
import Records

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
        CKContainer(identifier: ConfiguredRelays.defaultContainer)
    }

    /// Sets the relay to use from now on.
    ///
    /// - Parameters:
    ///   - endpoint: The relay and the credentials.
    ///   - identifier: The container to use it for; `nil` for all containers without a relay of their own.
    public static func configure(_ endpoint: RelayEndpoint, for identifier: String? = nil) {
        ConfiguredRelays.configure(endpoint, container: identifier)
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
