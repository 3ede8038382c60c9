package import Records
package import Wire

/// The limits of one request and of one user.
///
/// See Reliability.md, "Limits", and Wire.md, "Limits".
package struct Limits: Hashable, Sendable {
    /// Maximum number of operations, records, zones or subscriptions in one request, and of records in one response.
    package var itemsPerRequest = 200
    /// Maximum number of operations in a record write that has an `operationID`, as the writes of native clients have.
    ///
    /// CloudKit accepts 400 operations natively and 200 with CloudKit Web Services. A lower configured limit holds for
    /// both.
    package var operationsPerIdempotentWrite: Int {
        itemsPerRequest < 200 ? itemsPerRequest : max(itemsPerRequest, 400)
    }
    /// Maximum bytes of one response; a page that reaches it ends, with more to come.
    package var answerBytes = 16 << 20
    /// Maximum bytes of records that one change feed request may read, with 512 bytes added per record.
    ///
    /// Records that are read but filtered out count too: a filter on types or fields can make a short response of a
    /// long read.
    package var scannedBytes = 64 << 20
    /// Maximum number of records that one request may count to report how many remain after its page.
    package var countedRecords = 200_000
    /// Maximum number of records that one `records/move` request moves.
    package var recordsPerMove = 10_000
    /// Maximum bytes of the moved records' `fields` objects, plus those of the records that they replace.
    package var bytesPerMove = 256 << 20
    /// Maximum number of references that one write may examine to find which records its deletions cascade to or are
    /// blocked by.
    package var referencesPerWrite = 200_000
    /// Maximum bytes of one record's `fields` object.
    package var recordBytes = 1_000_000
    /// Maximum bytes of one string, or of the content of one bytes field.
    package var fieldBytes = 1_000_000
    /// Maximum number of custom zones of one user in one environment.
    package var zonesPerUser = 1_000
    /// Maximum number of subscriptions of one user in one database.
    package var subscriptionsPerDatabase = 1_000
    /// Maximum bytes of a subscription's query.
    package var subscribedQueryBytes = 16_384
    /// Maximum bytes of a user's subscriptions in one database together; they are all held in memory.
    package var subscriptionBytesPerDatabase = 1 << 20
    /// Maximum number of participants in one share, including its owner.
    ///
    /// See Errors.md, "Share rules".
    package var participants = 100
    /// Maximum number of record types that a schema may reach by just-in-time growth; an import may exceed it.
    package var grownTypes = 1_000
    /// Maximum number of fields of all record types that a schema may reach by just-in-time growth.
    package var grownFields = 20_000
    /// How long a long poll waits for a notice; shorter than the 60 s after which proxies commonly close a connection.
    package var longestPoll = Duration.seconds(25)
    package var queryFilters = 16
    package var querySorts = 4
    /// The limits of a request's JSON body.
    package var json = JSONLimits()
    package var quota = QuotaSettings()

    package init() {}
}

extension RelayError {
    /// The error for a response that would exceed `answerBytes`.
    package static func tooMuch(for limits: Limits) -> RelayError {
        RelayError(
            .badRequest,
            "These records are more than \(limits.answerBytes >> 20) MB together, too many for one response. Request fewer.",
            fineCode: .limitExceeded
        )
    }
}
