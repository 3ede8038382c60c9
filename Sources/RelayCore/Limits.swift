package import Records
package import Wire

/// Bounds on what one request and one user may have.
///
/// See Reliability.md, "Limits", and Wire.md, "Limits".
package struct Limits: Hashable, Sendable {
    /// Operations, records, zones or subscriptions in one request, and records in one answer.
    package var itemsPerRequest = 200
    /// Operations of one write of records that has an `operationID`, as native clients' writes have.
    ///
    /// CloudKit takes 400 of them natively and 200 by the web protocol. A limit that was set lower holds for both.
    package var operationsPerMarkedWrite: Int { itemsPerRequest < 200 ? itemsPerRequest : max(itemsPerRequest, 400) }
    /// Bytes of one answer: a page that has so many ends, with more to come.
    package var answerBytes = 16 << 20
    /// Bytes of records that one request for feeds may look at, answered or not, each counted with half a kilobyte more.
    ///
    /// Types and fields that nobody asked for make short answers of long reads.
    package var lookedAtBytes = 64 << 20
    /// Records that one request may have counted, to hear how many follow its pages.
    package var countedRecords = 200_000
    /// Records that one `records/move` takes to another zone.
    package var recordsPerMove = 10_000
    /// Bytes of their `fields` objects together, and of those that stand under their names in the other zone.
    package var bytesPerMove = 256 << 20
    /// References that one write may have to look at for what it deletes, to learn what goes along and what is in the way.
    package var bondsPerWrite = 200_000
    /// Bytes of one record's `fields` object.
    package var recordBytes = 1_000_000
    /// Bytes of one string, or of the content of one bytes field.
    package var fieldBytes = 1_000_000
    /// Custom zones of one user in one environment.
    package var zonesPerUser = 1_000
    /// Subscriptions of one user in one database.
    package var subscriptionsPerDatabase = 1_000
    /// Bytes of the query that a subscription watches.
    package var subscribedQueryBytes = 16_384
    /// Bytes of a user's subscriptions in one database together: they are all held in memory.
    package var subscriptionBytesPerDatabase = 1 << 20
    /// People in one share, its owner among them.
    ///
    /// See Errors.md, "Share rules".
    package var participants = 100
    /// Record types up to which a schema grows by their being saved; what is imported may be more.
    package var grownTypes = 1_000
    /// The same for the fields of all of them together.
    package var grownFields = 20_000
    /// How long a long poll waits for a notice; below the 60 s after which proxies commonly cut.
    package var longestPoll = Duration.seconds(25)
    package var queryFilters = 16
    package var querySorts = 4
    /// Of a request's body.
    package var json = JSONLimits()
    package var quota = QuotaSettings()

    package init() {}
}

extension RelayError {
    /// An answer would be longer than `answerBytes`.
    package static func tooMuch(for limits: Limits) -> RelayError {
        RelayError(
            .badRequest,
            "These records are more than \(limits.answerBytes >> 20) MB together, more than an answer holds. Name fewer in one request.",
            fineCode: .limitExceeded
        )
    }
}
