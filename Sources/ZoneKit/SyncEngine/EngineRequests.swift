import Foundation
package import Records
package import SyncCore

/// The requests of a sync engine.
extension CKDatabase {
    /// This database, with requests that are repeated until there is a response.
    package var repeatingRequests: CKDatabase {
        var settings = settings
        settings.isRepeated = true
        return configured(settings)
    }

    /// Returns a page of the zones that changed after `token`; of all zones if `nil`.
    func databasePage(since token: SyncToken?) async throws -> DatabasePage {
        let page = try await databaseChanges(since: token.map { CKServerChangeToken(encoded: $0.text) })
        return DatabasePage(
            changed: page.modifications.map(\.zoneID.zone),
            deleted: page.deletions.map { ($0.zoneID.zone, ZoneDeletionReason($0.reason)) },
            token: SyncToken(page.changeToken.encoded),
            moreComing: page.moreComing
        )
    }

    /// Returns the next page of a zone's feed after `token`; from the beginning if `nil`.
    ///
    /// With `hasUnreadableValues`, the app received values of the zone that could not be decrypted at the time.
    package func zonePage(
        in zone: ZoneID,
        since token: SyncToken?,
        hasUnreadableValues: Bool = false
    ) async throws -> ZonePage<CKRecord> {
        let token = token == .feedStart ? nil : token
        let page = try await zoneChangesPage(
            in: CKRecordZone.ID(zone),
            since: token.map { CKServerChangeToken(encoded: $0.text) },
            wantsKey: hasUnreadableValues
        )
        // Values that arrived before their key are fetched again, because now the app can read them.
        let startsOver = page.containsKey || (hasUnreadableValues && page.isReadable == true && token != nil)
        var answer = ZonePage(
            changed: page.records,
            deleted: page.deletions.map { ($0.recordID.record, $0.recordType) },
            token: startsOver ? .feedStart : SyncToken(page.changeToken.encoded),
            moreComing: startsOver || page.moreComing
        )
        answer.isReadable = page.isReadable
        answer.failures = page.failures.map { ($0.record, $1) }
        return answer
    }

    /// Writes records; if `atomically`, all of a zone's records or none.
    func send(saving: [CKRecord], deleting: [RecordID], atomically: Bool) async throws -> ModifyOutcome {
        let results = try await modify(
            saving: saving,
            deleting: deleting.map { CKRecord.ID($0) },
            savePolicy: .ifServerRecordUnchanged,
            atomically: atomically
        )
        // If the request as a whole was too large, every item has the same error; the engine then halves the batch.
        let failures = results.saveResults.values.map(\.failure) + results.deleteResults.values.map(\.failure)
        if failures.count > 1, let first = failures.first, let error = first,
            failures.allSatisfy({ $0?.code == .limitExceeded })
        {
            throw error
        }
        return results
    }
}

extension CKDatabase {
    /// The ID of the subscription that delivers notices to an engine or a mirror, unless the app chooses another.
    package var changesSubscriptionID: String { "\(scope.pathName)-changes" }

    /// Creates the subscription that delivers notices.
    ///
    /// Retries until the relay accepts it, the relay refuses it for good, or the task is cancelled.
    package func subscribeToChanges(
        as id: String,
        notBefore start: Instant? = nil,
        time: Scheduler,
        random: RandomGenerator
    ) async {
        if let start, start > time.now(), (try? await time.sleep(start)) == nil { return }
        var (backoff, random) = (Backoff.requests, random)
        while !Task.isCancelled {
            do throws(CKError) {
                _ = try await client.modifySubscriptions(
                    creating: [Subscription(id: id, kind: .database)],
                    deleting: []
                )
                return
            } catch {
                let syncFailure = error.syncFailure
                guard syncFailure.isRetriedAutomatically else { return }
                let wait = syncFailure.retryAfter ?? backoff.failed(using: &random)
                guard (try? await time.sleep(time.now() + wait)) != nil else { return }
            }
        }
    }
}

extension Result where Failure == any Error {
    var failure: CKError? {
        guard case .failure(let error) = self else { return nil }
        return CKError(from: error)
    }
}

extension SyncToken {
    /// Represents the beginning of a feed where a token is required.
    fileprivate static let feedStart = SyncToken("")
}

extension ZoneDeletionReason {
    init(_ reason: CKDatabase.DatabaseChange.Deletion.Reason) {
        self =
            switch reason {
            case .deleted: .deleted
            case .purged: .purged
            case .encryptedDataReset: .encryptedDataReset
            }
    }
}

extension CKDatabase.DatabaseChange.Deletion.Reason {
    init(_ reason: ZoneDeletionReason) {
        self =
            switch reason {
            case .deleted: .deleted
            case .purged: .purged
            case .encryptedDataReset: .encryptedDataReset
            }
    }
}
