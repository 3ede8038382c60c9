import RelayCore
import RelayStore

extension TestRelay {
    /// Bounds that a test may lower, to meet the refusals of a large application with a small one.
    public struct Limits: Hashable, Sendable {
        /// Operations in one request, and records in one answer: more is refused with `limitExceeded`.
        public var itemsPerRequest = 200
        /// Bytes of one answer, about: a page ends when it has so many, and a fetch of single records is made in parts.
        public var answerBytes = 16 << 20
        /// Bytes of one record without its assets.
        public var recordBytes = 1_000_000
        /// Zones of one user, the default zone not counted.
        public var zonesPerUser = 1_000
        /// Bytes of one user's private database, assets included; what would not fit is refused with `quotaExceeded`.
        public var privateBytes: Int64? = 5_000_000_000

        /// The relay's own.
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

    /// Fills everybody's private database: from now on only what takes no more space is accepted.
    ///
    /// `emptyQuota()` ends it.
    public func fillQuota() { limits.privateBytes = 0 }

    /// Gives everybody the usual space again.
    public func emptyQuota() { limits.privateBytes = Limits().privateBytes }

    /// Makes every change token so far one that is no longer served, as a restored backup does.
    ///
    /// Engines and mirrors then list everything anew; what calls the databases itself gets `changeTokenExpired`.
    ///
    /// - Throws: What SQLite throws.
    public func expireChangeTokens() throws { try running?.stores.renewEpochs() }
}
