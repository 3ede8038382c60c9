import Foundation
package import Records
package import SyncCore

/// Accesses a database through the SDK's own calls.
package struct DatabaseLink: CloudDatabase {
    let database: CKDatabase
    /// Returns whether the app received values of a zone that could not be decrypted at the time.
    private let hasUnreadableValues: @Sendable (ZoneID) -> Bool

    package init(database: CKDatabase, hasUnreadableValues: @escaping @Sendable (ZoneID) -> Bool = { _ in false }) {
        var settings = database.settings
        settings.isRepeated = true
        self.database = database.configured(settings)
        self.hasUnreadableValues = hasUnreadableValues
    }

    package func databaseChanges(since token: SyncToken?) async throws -> DatabasePage {
        let page = try await database.databaseChanges(since: token.map { CKServerChangeToken(encoded: $0.text) })
        return DatabasePage(
            changed: page.modifications.map(\.zoneID.zone),
            deleted: page.deletions.map { ($0.zoneID.zone, ZoneDeletionReason($0.reason)) },
            token: SyncToken(page.changeToken.encoded),
            moreComing: page.moreComing
        )
    }

    package func zoneChanges(in zone: ZoneID, since token: SyncToken?) async throws -> ZonePage<CKRecord> {
        let token = token == .feedStart ? nil : token
        let hasUnreadableValues = hasUnreadableValues(zone)
        let page = try await database.zoneChangesPage(
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

    package func modifyZones(saving: [CKRecordZone], deleting: [ZoneID]) async throws -> ZonesAnswer<CKRecordZone> {
        let results = try await database.modifyRecordZones(
            saving: saving,
            deleting: deleting.map { CKRecordZone.ID($0) }
        )
        return ZonesAnswer(saved: results.saveResults.byZone, deleted: results.deleteResults.byZone)
    }

    package func reset(_ zone: ZoneID) async throws {
        try await database.end(CKRecordZone.ID(zone), because: .encryptedDataReset)
    }

    package func modifyRecords(
        saving: [CKRecord],
        deleting: [RecordID],
        atomically: Bool
    ) async throws -> RecordsAnswer<CKRecord> {
        let results = try await database.modify(
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
        return RecordsAnswer(saved: results.saveResults.byRecord, deleted: results.deleteResults.byRecord)
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

extension Dictionary where Key == CKRecordZone.ID {
    fileprivate var byZone: [ZoneID: Value] { Dictionary<ZoneID, Value>(map { ($0.key.zone, $0.value) }) { $1 } }
}

extension Dictionary where Key == CKRecord.ID {
    fileprivate var byRecord: [RecordID: Value] {
        Dictionary<RecordID, Value>(map { ($0.key.record, $0.value) }) { $1 }
    }
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

extension CKError {
    /// Converts any error to a `CKError`.
    package init(from error: any Error) {
        if let error = error as? CKError {
            self = error
        } else if error is CancellationError {
            self.init(.operationCancelled)
        } else {
            self.init(_nsError: error as NSError)
        }
    }

    /// The consequence of this error for the next step.
    package var syncFailure: SyncFailure {
        let kind: SyncFailure.Kind =
            switch code {
            // After a lost response the outcome is unknown; change tags make it safe to send again.
            case .networkFailure, .networkUnavailable, .serverResponseLost: .network
            case .operationCancelled: .cancelled
            case .requestRateLimited, .serviceUnavailable: .busy
            case .zoneBusy: .zoneBusy
            case .notAuthenticated, .accountTemporarilyUnavailable: .account
            case .changeTokenExpired: .tokenExpired
            case .zoneNotFound, .userDeletedZone: .zoneNotFound
            case .limitExceeded: .limitExceeded
            default: .refused
            }
        return SyncFailure(kind, retryAfter: retryAfterSeconds.flatMap { Duration(waitOf: $0) })
    }
}

extension CKError {
    /// Creates an error for a failure that only the engine detects.
    init(_ syncFailure: SyncFailure) {
        switch syncFailure.kind {
        case .tokenExpired: self.init(.changeTokenExpired)
        default:
            self.init(
                .internalError,
                "The relay's change feed makes no progress. Retry later, and see the relay's log."
            )
        }
    }
}
