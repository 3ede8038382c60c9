import Foundation
import GRDB
import Records
package import SyncCore
import Wire
package import ZoneKit

/// What to do about a change that the relay did not accept.
///
/// See Sync.md, "Refused writes".
package enum SendDecision: Equatable, Sendable {
    /// Another change of its batch failed: send this one again immediately.
    case resend
    /// The relay has a newer version: merge and send again.
    case merge
    /// The zone is missing: create it and send again.
    case createZone
    /// The zone belongs to another user and is gone: read the database's feed.
    case fetchDatabaseChanges
    /// The record or its zone is not found: check first whether it has moved.
    case fetchFirst
    /// The record is gone on the relay: send it as a new one.
    case recreate
    /// The record is gone on the relay: delete it here too.
    ///
    /// Under the policy `error`, the change waits for a decision.
    case acceptDeletion
    /// The change is already done.
    case done
    /// The target of a reference is not there yet: hold the change until something is saved.
    case wait
    /// The quota is exceeded: pause the saves of this database.
    case quotaExceeded
    /// Try this change and those after it again later.
    case later
    /// The relay may no longer have an uploaded asset: upload it again.
    case reuploadAssets
    /// The change is refused permanently.
    case refuse

    /// The number of merges after which a conflict counts as refused.
    static let maxConflicts = 5

    package struct Context {
        var operation: Outbox.Operation
        /// The number of earlier failures of this change.
        var tries: Int
        /// Whether the last attempt failed with the same error; other failures are not counted.
        var isRepeated = false
        var policy: MergePolicy
        var acceptsDeletions: Bool
        /// Whether this user may create the zone.
        var isOwnZone: Bool
        /// Whether the zone belongs to another user, so that the record may still exist but be invisible.
        var isSharedZone = false
        /// Whether the zone is the one for new objects.
        var isHomeZone = true
        /// Whether some of its values are in assets.
        var hasFiles = false

        package init(
            operation: Outbox.Operation,
            tries: Int,
            isRepeated: Bool = false,
            policy: MergePolicy,
            acceptsDeletions: Bool,
            isOwnZone: Bool,
            isSharedZone: Bool = false,
            isHomeZone: Bool = false,
            hasFiles: Bool = false
        ) {
            self.operation = operation
            self.tries = tries
            self.isRepeated = isRepeated
            self.policy = policy
            self.acceptsDeletions = acceptsDeletions
            self.isOwnZone = isOwnZone
            self.isSharedZone = isSharedZone
            self.isHomeZone = isHomeZone
            self.hasFiles = hasFiles
        }
    }

    package static func after(_ code: CKError.Code, _ change: Context) -> SendDecision {
        switch code {
        case .batchRequestFailed: .resend
        case .serverRecordChanged: change.tries < maxConflicts ? .merge : .refuse
        case .unknownItem where (change.isOwnZone || change.isSharedZone) && !change.isRepeated: .fetchFirst
        case .zoneNotFound where change.isOwnZone && !change.isHomeZone && !change.isRepeated: .fetchFirst
        case .zoneNotFound where change.operation == .delete: .done
        case .zoneNotFound: change.isOwnZone ? .createZone : .fetchDatabaseChanges
        case .userDeletedZone: .fetchDatabaseChanges
        case .unknownItem where change.operation == .delete: .done
        case .unknownItem: afterUnknownItem(change)
        case .referenceViolation, .assetFileNotFound, .assetFileModified, .assetNotAvailable:
            change.isRepeated ? .refuse : .wait
        case .quotaExceeded: .quotaExceeded
        case .networkUnavailable, .networkFailure, .serverResponseLost, .operationCancelled, .requestRateLimited,
            .serviceUnavailable, .zoneBusy, .notAuthenticated, .accountTemporarilyUnavailable:
            .later
        case .internalError, .serverRejectedRequest: change.isRepeated ? .refuse : .later
        case .invalidArguments where change.hasFiles && !change.isRepeated: .reuploadAssets
        default: .refuse
        }
    }

    private static func afterUnknownItem(_ change: Context) -> SendDecision {
        let stays = PropertyMerge.keepsObjectDeletedInStore(change.policy) ?? false
        return change.acceptsDeletions || !stays ? .acceptDeletion : .recreate
    }
}

/// Applies the results of one request to the store.
struct SendResultWriter {
    /// An object whose change the relay refused, and the reason.
    struct Refusal: Sendable {
        var oid: String
        var error: CKError
    }

    struct Result: Sendable {
        var sent = 0
        var refused: [Refusal] = []
        /// Changes to send again immediately, unchanged.
        var resend: [Outgoing] = []
        /// Whether to read changes again from the outbox in this round.
        var needsAnotherPass = false
        var needsDatabaseFetch = false
        /// Whether changes must be fetched before anything is sent again.
        var needsFetch = false
        /// The error of a change that failed temporarily.
        var temporaryError: CKError?
        /// The error of a change that found no space; changes that need none continue.
        var quotaError: CKError?
        var details: [MirrorEvent.Detail] = []
    }

    private let db: Database
    private let file: StoreFile
    private let exporter: Exporter
    private let now: Date
    private let isOwnZone: Bool
    private var merges: [(Outgoing, Record)] = []
    private var refusals: [(Outgoing, CKError)] = []
    private var deletions: [Outgoing] = []
    /// Deleted objects to which links of others point.
    private var deletedTargets: [Outgoing] = []
    /// Changes that were sent but undone here meanwhile, and failed changes that need no decision.
    private var undone: [Outgoing] = []
    private(set) var result = Result()

    init(_ db: Database, _ file: StoreFile, now: Date, isOwnZone: Bool) throws {
        self.db = db
        self.file = file
        self.now = now
        self.isOwnZone = isOwnZone
        exporter = try Exporter(db, file)
    }

    mutating func apply(_ item: Outgoing, _ answer: WriteAnswer, in zone: ZoneID) throws {
        if case .failed = answer {} else if try OutboxRow.find(db, item.oid) == nil { undone.append(item) }
        switch answer {
        case .saved(let record) where item.operation == .save:
            try exporter.saved(item, as: record)
            result.sent += 1
        case .deleted, .saved:
            try deleted(item)
            result.sent += 1
            // A deletion frees space.
            if try State.text(db, .quotaIsFull) != nil {
                try State.set(db, .quotaIsFull, nil)
                result.needsAnotherPass = true
                result.details.append(.quotaRecovered)
            }
        case .failed(let error, let server): try apply(item, error, server, zone)
        }
    }

    private mutating func apply(_ item: Outgoing, _ error: CKError, _ server: Record?, _ zone: ZoneID) throws {
        // The target of its reference is unsent or refused, or the zone's key has not arrived: not a failure of this
        // change.
        if try error.isZoneKeyMissing || error.code == .referenceViolation && OutboxRow.hasUnsentParent(db, of: item) {
            return try exporter.wait(item.oid, error.errorDescription ?? "", code: error.errorCode)
        }
        let cloud = file.description.cloud
        let decision = SendDecision.after(
            error.code,
            .init(
                operation: item.operation,
                tries: item.tries,
                isRepeated: try OutboxRow.find(db, item.oid)?.code == error.errorCode,
                policy: cloud?.mergePolicy ?? .mergeByPropertyObjectTrump,
                acceptsDeletions: cloud?.acceptsDeletions ?? false,
                isOwnZone: isOwnZone,
                isSharedZone: file.scope == .shared,
                isHomeZone: zone == file.homeZone,
                hasFiles: !item.large.isEmpty
            )
        )
        switch decision {
        case .reuploadAssets:
            try exporter.failed(item, error)
            result.needsAnotherPass = true
        case .resend:
            // A change that was undone meanwhile need not be sent.
            if try OutboxRow.find(db, item.oid) != nil { result.resend.append(item) }
        case .merge:
            try exporter.failed(item, error)
            if let server { merges.append((item, server)) }
            result.needsAnotherPass = true
        case .createZone:
            try KnownZone.find(db, zone)?.notFound(db)
            try exporter.failed(item, error)
            if let known = try KnownRecord.find(db, oid: item.oid) {
                try exporter.records.vanished(known, base: known.baseForNewRecord(file.mapping))
            }
            result.needsAnotherPass = result.needsAnotherPass || item.tries < 3
            if item.tries >= 3 { try refused(item, error) }
        case .fetchDatabaseChanges:
            result.needsDatabaseFetch = true
            try exporter.wait(item.oid, error.errorDescription ?? "", code: error.errorCode)
        case .fetchFirst:
            try exporter.failed(item, error)
            result.needsFetch = true
        case .recreate:
            if let known = try KnownRecord.find(db, oid: item.oid) {
                try exporter.records.vanished(known, base: known.baseForNewRecord(file.mapping))
            }
            result.needsAnotherPass = true
        case .acceptDeletion: deletions.append(item)
        case .done: try deleted(item)
        case .wait:
            try exporter.failed(item, error)
            try exporter.wait(item.oid, error.errorDescription ?? "", code: error.errorCode)
        case .quotaExceeded:
            if try State.text(db, .quotaIsFull) == nil {
                try State.set(db, .quotaIsFull, now.timeIntervalSince1970)
                result.details.append(.quotaExceeded())
            }
            result.quotaError = result.quotaError ?? error
        case .later:
            // A busy relay is not a failure of the change itself.
            try exporter.failed(item, error, counts: !error.syncFailure.isRetriedAutomatically)
            result.temporaryError = result.temporaryError ?? error
        case .refuse: try refused(item, error)
        }
    }

    /// Refuses a change, unless the object was changed since; the newer change is sent and answered on its own.
    private mutating func refused(_ item: Outgoing, _ error: CKError) throws {
        guard let row = try OutboxRow.find(db, item.oid) else { return }
        guard row.version > item.version else {
            if try isMoveOnly(item) {
                return try exporter.wait(item.oid, error.errorDescription ?? "", code: error.errorCode)
            }
            guard try isForeignLinkDeletion(item, error) else { return refusals.append((item, error)) }
            try exporter.records.discardChange(of: item.oid)
            return undone.append(item)
        }
        try exporter.records.confirm(item.oid, version: item.version)
        result.needsAnotherPass = true
    }

    /// Returns whether the only unsent change of an object is its move.
    ///
    /// If that is refused, the original stays until the move is accepted.
    private func isMoveOnly(_ item: Outgoing) throws -> Bool {
        guard item.operation == .save, let known = try KnownRecord.find(db, oid: item.oid),
            known.state.isMoving, let table = file.mapping.tables[item.entity],
            let row = try table.row(db, item.oid)
        else { return false }
        let mine = file.mapping.roundTripped(try exporter.names.toRelay(row, table, item.oid, db), in: table)
        return mine == file.mapping.row(of: known.serverFields(), in: table)
    }

    /// Returns whether this is the deletion of somebody else's many-to-many link to an object of this user.
    ///
    /// The link has no effect any more and stays.
    private func isForeignLinkDeletion(_ item: Outgoing, _ error: CKError) throws -> Bool {
        guard item.operation == .delete, error.code == .permissionFailure, let table = file.mapping.tables[item.entity],
            table.entity == nil, let known = try KnownRecord.find(db, oid: item.oid)
        else { return false }
        let ends = file.mapping.row(of: known.serverFields(), in: table)
        let row = try RecordNameTranslator(db).toLocal(ends, table, of: (known.name, item.oid), zone: known.zone, db)
        return !row.unresolved.isEmpty
    }

    private mutating func deleted(_ item: Outgoing) throws {
        try exporter.deleted(item)
        if try UnresolvedLinks.exist(db, to: item.write.recordName) { deletedTargets.append(item) }
    }

    /// Applies merges, deletions and undone changes, as an import.
    mutating func end() throws {
        guard !merges.isEmpty || !refusals.isEmpty || !deletions.isEmpty || !deletedTargets.isEmpty || !undone.isEmpty
        else { return }
        let (db, file, now) = (db, file, now)
        let (merges, refusals, deletions, deletedTargets, undone) = (
            merges, refusals, deletions, deletedTargets, undone
        )
        let conflicts = try Importer.run(db, file, at: now) { importer in
            for (item, record) in merges {
                try importer.importRecord(record, zone: try KnownZone.make(db, item.zone))
            }
            for item in deletions {
                if let known = try KnownRecord.find(db, oid: item.oid) {
                    try importer.remove(known, keepingPending: false)
                }
            }
            for item in deletions + deletedTargets {
                try importer.dropPairs(with: item.write.recordName, zone: try KnownZone.make(db, item.zone).id)
            }
            for (item, error) in refusals { try importer.noteRefusal(item, error) }
            if file.description.cloud?.keepsRefusedChanges != true {
                for (item, _) in refusals { try importer.revert(item) }
            }
            // If the undo came too late, the relay's last version is what was sent.
            for item in undone { try importer.revert(item) }
            return importer.conflicts
        }
        result.refused += refusals.map { Refusal(oid: $0.oid, error: $1) }
        let conflict = CKError(.serverRecordChanged, "It was also changed on the relay. See rejectedWrites.")
        result.refused += conflicts.map { Refusal(oid: $0, error: conflict) }
    }
}

extension Importer {
    /// Stores a refused change with the many-to-many links that are removed if it is undone; runs before any of them
    /// is.
    func noteRefusal(_ item: Outgoing, _ error: CKError) throws {
        guard let table = mapping.tables[item.entity] else { return }
        let current = try table.row(db, item.oid)
        let mine = try current.map { mapping.fields(of: try names.toRelay($0, table, item.oid, db), in: table) } ?? [:]
        let cause = Refusals.Cause(
            code: error.errorCode,
            message: error.errorDescription ?? "The relay refused the change."
        )
        try Refusals.add(
            db,
            oid: item.oid,
            entity: item.entity,
            operation: item.operation,
            mine: mine,
            pairs: item.operation == .save ? try RefusedPair.encoded(of: item.oid, table.name, mapping, db) : nil,
            error: cause,
            at: now,
            tries: item.tries + 1
        )
    }

    func revert(_ item: Outgoing) throws {
        guard let table = mapping.tables[item.entity] else { return }
        let current = try table.row(db, item.oid)
        try revert(item.oid, table, current)
        if item.operation == .delete, current == nil { try restoreLinks(item.oid, table, deletion: item.version) }
    }

    /// Restores an object to the relay's last version; removes it if the relay has none.
    func revert(_ oid: String, _ table: TableLayout, _ current: [DatabaseValue]?) throws {
        let known = try KnownRecord.find(db, oid: oid)
        guard let known, known.state.isInZone || known.state.isMoving else {
            if current != nil { try deleteRow(table, oid, named: known?.name ?? oid) }
            if let known {
                try dropPairs(with: known.name, zone: known.zone)
                try records.remove(known)
            }
            return
        }
        let theirs = mapping.row(of: known.serverFields(), in: table)
        _ = try write(theirs, to: table, oid, named: known.name, over: current, zone: known.zone)
        try noteReversal(table, oid, wasGone: current == nil)
        if known.state.isMoving { try records.queue(oid, entity: table.name, .save) }
    }
}
