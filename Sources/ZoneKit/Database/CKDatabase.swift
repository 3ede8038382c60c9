public import Foundation
package import Records

/// A database of a container: public, private or shared.
///
/// Each call sends one request to the relay, or one per zone if it concerns several zones, and throws `CKError`. A
/// database caches nothing and retries nothing; that is up to the app or `CKSyncEngine`. Cancelling a task cancels its
/// request, which throws `operationCancelled`.
public final class CKDatabase: NSObject, Sendable {
    /// The kind of database.
    public enum Scope: Int, Sendable, CaseIterable {
        /// Data of all users.
        case `public` = 1
        /// The current user's own data.
        case `private` = 2
        /// Data that other users share with the current user.
        case shared = 3
    }

    /// The kind of database.
    public let databaseScope: Scope

    package let session: RelaySession
    /// The settings of this object's requests, from `configuredWith` or an operation.
    package let settings: RequestSettings

    package init(_ scope: Scope, _ session: RelaySession, settings: RequestSettings = RequestSettings()) {
        databaseScope = scope
        self.session = session
        self.settings = settings
    }

    /// Returns this database with other request settings.
    package func configured(_ settings: RequestSettings) -> CKDatabase {
        settings == self.settings ? self : CKDatabase(databaseScope, session, settings: settings)
    }

    /// The container and the scope.
    public override var description: String { "<CKDatabase: \(session.container) \(databaseScope)>" }

    /// Returns whether two databases have the same container and the same scope.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKDatabase else { return false }
        return session.identity == other.session.identity && databaseScope == other.databaseScope
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { databaseScope.rawValue ^ session.identity.hashValue }

    /// The scope as a value of the lower modules.
    package var scope: DatabaseScope {
        switch databaseScope {
        case .public: .public
        case .private: .private
        case .shared: .shared
        }
    }
}
