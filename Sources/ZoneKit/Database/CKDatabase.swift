public import Foundation
package import Records

/// A database of a container: public, private or shared.
///
/// Every call is one request to the relay (or one per zone, where it names several) and throws `CKError`. Nothing is
/// kept between calls and nothing is tried again: a program, or `CKSyncEngine`, decides that. Cancelling a task ends its
/// request with `operationCancelled`.
public final class CKDatabase: NSObject, Sendable {
    /// Whose data it holds.
    public enum Scope: Int, Sendable, CaseIterable {
        /// Everybody's.
        case `public` = 1
        /// The current user's own.
        case `private` = 2
        /// Shared with the current user by others.
        case shared = 3
    }

    /// Whose data it holds.
    public let databaseScope: Scope

    package let session: RelaySession
    /// What `configuredWith` and operations say about this object's requests.
    package let settings: RequestSettings

    package init(_ scope: Scope, _ session: RelaySession, settings: RequestSettings = RequestSettings()) {
        databaseScope = scope
        self.session = session
        self.settings = settings
    }

    /// The same database for requests of other settings.
    package func configured(_ settings: RequestSettings) -> CKDatabase {
        settings == self.settings ? self : CKDatabase(databaseScope, session, settings: settings)
    }

    /// Container and scope, for logs.
    public override var description: String { "<CKDatabase: \(session.container) \(databaseScope)>" }

    /// Databases are the same when container and scope are.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKDatabase else { return false }
        return session.identity == other.session.identity && databaseScope == other.databaseScope
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { databaseScope.rawValue ^ session.identity.hashValue }

    /// The scope as the modules below know it.
    package var scope: DatabaseScope {
        switch databaseScope {
        case .public: .public
        case .private: .private
        case .shared: .shared
        }
    }
}
