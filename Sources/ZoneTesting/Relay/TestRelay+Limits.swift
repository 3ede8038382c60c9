import RelayCore
import RelayStore

extension TestRelay {
    /// Limits that a test may lower, to cause a large application's errors with a small one.
    public struct Limits: Hashable, Sendable {
        /// The maximum number of operations in a request and of records in a response; more fail with `limitExceeded`.
        public var itemsPerRequest = 200
        /// The approximate size of a response in bytes: a page ends there, and a fetch of single records is split.
        public var answerBytes = 16 << 20
        /// The maximum size of a record in bytes, without its assets.
        public var recordBytes = 1_000_000
        /// The maximum number of zones per user, without the default zone.
        public var zonesPerUser = 1_000
        /// The maximum size of a user's private database in bytes, including assets.
        ///
        /// A write that would exceed it fails with `quotaExceeded`.
        public var privateBytes: Int64? = 5_000_000_000

        /// Creates the relay's default limits.
        public init() {}

        var all: RelayCore.Limits {
            var limits = RelayCore.Limits()
            limits.itemsPerRequest = itemsPerRequest
            limits.answerBytes = answerBytes
            limits.recordBytes = recordBytes
            limits.zonesPerUser = zonesPerUser
            limits.quota.privateBytes = privateBytes
            return limits
        }
    }

    /// Fills every user's private database: only writes that take no more space succeed from now on.
    ///
    /// `emptyQuota()` ends this.
    public func fillQuota() { limits.privateBytes = 0 }

    /// Restores the default size limit for all users.
    public func emptyQuota() { limits.privateBytes = Limits().privateBytes }

    /// Expires every change token issued so far, as restoring a backup does.
    ///
    /// Engines and mirrors then fetch everything again; direct calls of the databases fail with `changeTokenExpired`.
    ///
    /// - Throws: the error of SQLite.
    public func expireChangeTokens() throws { try running?.stores.renewEpochs() }
}
