public import Foundation
import Records

/// One application's data: three databases, and the user who is signed in.
///
/// All containers of one identifier in a process share connection and account. Making one costs nothing and never
/// fails; the first request throws `badContainer` if no relay has been named (see `RelayEndpoint`).
public final class CKContainer: NSObject, Sendable {
    /// The container's name, such as `iCloud.com.example.notes`.
    public let containerIdentifier: String?
    /// Everybody's data.
    public let publicCloudDatabase: CKDatabase
    /// The current user's own data.
    public let privateCloudDatabase: CKDatabase
    /// What others have shared with the current user.
    public let sharedCloudDatabase: CKDatabase

    package let session: RelaySession

    /// A container by name, at the relay that is configured for it.
    public convenience init(identifier: String) {
        self.init(sharing: RelaySession(container: identifier))
    }

    /// A container at a relay of its own, with an account of its own, whatever the process is configured for.
    ///
    /// - Parameters:
    ///   - identifier: The container's name.
    ///   - endpoint: Where its relay is, and who speaks.
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

    /// The program's main container: the one configured by name first, else `ZONECAST_CONTAINER`, else one named after
    /// the program.
    public static func `default`() -> CKContainer {
        CKContainer(identifier: ConfiguredRelays.defaultContainer)
    }

    /// Names the relay to use from now on.
    ///
    /// - Parameters:
    ///   - endpoint: Where the relay is, and who speaks.
    ///   - identifier: The container to use it for; left out, all that have none of their own.
    public static func configure(_ endpoint: RelayEndpoint, for identifier: String? = nil) {
        ConfiguredRelays.configure(endpoint, container: identifier)
    }

    /// The database of a scope.
    public func database(with databaseScope: CKDatabase.Scope) -> CKDatabase {
        switch databaseScope {
        case .public: publicCloudDatabase
        case .private: privateCloudDatabase
        case .shared: sharedCloudDatabase
        }
    }

    /// The container's name, for logs.
    public override var description: String { "<CKContainer: \(session.container)>" }

    /// Containers are the same when their name and the way to their relay are.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKContainer else { return false }
        return session.identity == other.session.identity
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { session.identity.hashValue }
}

/// Whether there is a user to speak for.
public enum CKAccountStatus: Int, Sendable {
    /// It could not be found out.
    case couldNotDetermine = 0
    /// Signed in.
    case available = 1
    /// The user may not use this container.
    case restricted = 2
    /// Nobody is signed in.
    case noAccount = 3
    /// Signed in, but not to be reached just now, or to sign in again: nothing of theirs is to be deleted.
    case temporarilyUnavailable = 4
}
