import Foundation
import Records
import Synchronization
import Wire

extension CKDatabase {
    /// Saves one record, provided that nobody else has changed it meanwhile.
    ///
    /// - Parameter record: What to save; only its changed fields are sent. It is brought up to date by the answer.
    /// - Returns: The same object.
    /// - Throws: `serverRecordChanged` with all three versions, `zoneNotFound`, and what any call throws.
    @discardableResult
    public func save(_ record: CKRecord) async throws -> CKRecord {
        let results = try await modifyRecords(saving: [record], deleting: [])
        guard let result = results.saveResults[record.recordID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes one record, whatever version the relay has; deleting what is not there succeeds.
    ///
    /// - Parameter recordID: The record's address.
    /// - Returns: The same address.
    /// - Throws: `zoneNotFound`, and what any call throws.
    @discardableResult
    public func deleteRecord(withID recordID: CKRecord.ID) async throws -> CKRecord.ID {
        let results = try await modifyRecords(saving: [], deleting: [recordID])
        try results.deleteResults[recordID]?.get()
        return recordID
    }

    /// Saves and deletes records; one request per zone.
    ///
    /// - Parameters:
    ///   - recordsToSave: What to save; each is brought up to date by the answer.
    ///   - recordIDsToDelete: What to delete, whatever version the relay has.
    ///   - savePolicy: What to do about records that were changed elsewhere; shares are always saved if unchanged.
    ///   - atomically: Whether a custom zone's changes stand or fall together; means nothing in the default zone.
    /// - Returns: Each item's own outcome. In a failed atomic zone the guilty items have their own errors, all others
    ///   `batchRequestFailed`.
    /// - Throws: What concerns the call as a whole; failed items alone do not throw. `invalidArguments` for a record that is
    ///   to be saved twice, or saved and deleted. `limitExceeded` for more than 400 items in one atomic zone, and for what is
    ///   too large for one request. Nothing has been done then, and what is left out or cut into smaller parts may go.
    public func modifyRecords(
        saving recordsToSave: [CKRecord],
        deleting recordIDsToDelete: [CKRecord.ID],
        savePolicy: CKModifyRecordsOperation.RecordSavePolicy = .ifServerRecordUnchanged,
        atomically: Bool = true
    ) async throws -> (
        saveResults: [CKRecord.ID: Result<CKRecord, any Error>], deleteResults: [CKRecord.ID: Result<Void, any Error>]
    ) {
        try refuseRepeated(recordsToSave, recordIDsToDelete)
        let outcome = try await modify(
            saving: recordsToSave,
            deleting: recordIDsToDelete,
            savePolicy: savePolicy,
            atomically: atomically
        )
        return (outcome.saveResults, outcome.deleteResults)
    }

    /// The same, telling of each item as soon as its outcome is known.
    @discardableResult
    func modify(
        saving recordsToSave: [CKRecord],
        deleting recordIDsToDelete: [CKRecord.ID],
        savePolicy: CKModifyRecordsOperation.RecordSavePolicy,
        atomically: Bool,
        tell: (ModifyEvent) -> Void = { _ in }
    ) async throws(CKError) -> ModifyOutcome {
        let isAtomic = atomically && databaseScope != .public
        if isAtomic { try refuseMany(recordsToSave.map(\.recordID) + recordIDsToDelete) }
        // Somebody else may sign in before the last request has gone.
        let user = AccountBinding.ofNow(try session.connection())
        var outcome = ModifyOutcome()
        let drafts = recordsToSave.map(Draft.init)
        var files = try await sendFiles(of: drafts, savePolicy, for: user, tell)
        let caller = try await user.during { () async throws(CKError) in
            try await sealSecrets(of: drafts, savePolicy, &files)
            return try await callerName(for: drafts)
        }
        let items = ModifyItem.items(
            saving: drafts,
            deleting: recordIDsToDelete,
            savePolicy,
            files,
            caller: caller
        )
        let chunks = outcome.refuseUnsendable(items, asked: atomically, isAtomic: isAtomic)
        outcome.report(items, tell)
        try await runChunks(chunks) { chunk throws(CKError) in
            try await user.during { () throws(CKError) in
                try await modify(chunk, atomically: isAtomic && !chunk.zoneID.zone.isDefault, into: &outcome)
            }
            for item in chunk.items { item.record.map { tell(.progress($0, 1)) } }
            outcome.report(chunk.items, tell)
        } failed: { chunk, error in
            for item in chunk.items { outcome.fail(item, error) }
            outcome.report(chunk.items, tell)
        }
        outcome.tell(try session.connection().zoneKeys)
        for case let share as CKShare in recordsToSave where (try? outcome.saveResults[share.recordID]?.get()) != nil {
            try? await user.during { () async throws(CKError) in await giveKey(by: share) }
        }
        return outcome
    }

    /// Refuses a call that saves a record twice, or saves and deletes it: nobody could say what became of it.
    ///
    /// Of an engine's batch the one record fails alone: the others would be forgotten with it.
    func refuseRepeated(_ saved: [CKRecord], _ deleted: [CKRecord.ID]) throws(CKError) {
        var met: Set<CKRecord.ID> = []
        if let twice = saved.first(where: { !met.insert($0.recordID).inserted })?.recordID {
            throw CKError(.invalidArguments, "Record '\(twice.recordName)' is to be saved twice. Save it once.")
        }
        guard let both = deleted.first(where: met.contains) else { return }
        throw CKError(
            .invalidArguments,
            "Record '\(both.recordName)' is to be saved and deleted. Leave one of them out."
        )
    }

    /// Refuses a call with more in one atomic zone than one request can hold, before anything of it is sent.
    private func refuseMany(_ ids: [CKRecord.ID]) throws(CKError) {
        let zones = ZoneChunk.cut(ids, by: \.zoneID, limit: .max).filter { !$0.zoneID.zone.isDefault }
        guard let most = zones.map(\.items.count).max(), most > ZoneChunk<ModifyItem>.atomicLimit else { return }
        throw CKError(
            .limitExceeded,
            "An atomic batch holds at most \(ZoneChunk<ModifyItem>.atomicLimit) items, and this one has \(most). "
                + "Send it in smaller parts."
        )
    }

    /// One `records/modify`.
    private func modify(
        _ chunk: ZoneChunk<ModifyItem>,
        atomically: Bool,
        into outcome: inout ModifyOutcome
    ) async throws(CKError) {
        let connection = try await connectionKnowingCaller()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await connection.modify(
                chunk.items.map(\.write),
                in: chunk.zoneID.zone,
                of: scope,
                atomically: atomically,
                settings: settings,
                remembered: settings.isRepeated ? .untilAnswered : .minutes
            )
        } catch {
            // An atomic failure is an error answer that lists every item.
            guard error.failure?.error.code == .atomicError, let listed = error.document, listed.root["records"] != nil
            else { throw error.error }
            document = listed
        }
        try reading { () throws(JSONError) in
            var rest = chunk.items[...]
            try ClientResponse.records(document.root, zone: nil) { entry in
                guard let item = rest.popFirst() else { return }
                outcome.settle(item, entry, &reader)
            }
            for item in rest { outcome.fail(item, CKError(.internalError, "The relay's answer leaves this item out.")) }
        }
    }
}

/// What happens to the items of a batch while it is sent.
enum ModifyEvent {
    /// How much of a record has been sent, from 0 to 1.
    case progress(CKRecord, Double)
    case saved(CKRecord, Result<CKRecord, any Error>)
    case deleted(CKRecord.ID, Result<Void, any Error>)
}

/// Collects what became of each item of a batch.
struct ModifyOutcome {
    private(set) var saveResults: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
    private(set) var deleteResults: [CKRecord.ID: Result<Void, any Error>] = [:]

    /// Takes out what cannot be sent at all, and cuts the rest into requests.
    ///
    /// Where the caller `asked` for it, what cannot be sent fails the others of its zone, also of one that is not atomic on
    /// the relay: as in CloudKit, whose own check knows nothing of zones.
    mutating func refuseUnsendable(
        _ items: [ModifyItem],
        asked isAskedFor: Bool,
        isAtomic: Bool
    ) -> [ZoneChunk<ModifyItem>] {
        var refusedZones: Set<CKRecordZone.ID> = []
        var good: [ModifyItem] = []
        for item in items {
            guard let error = item.refusal ?? item.unsendable else {
                good.append(item)
                continue
            }
            fail(item, error)
            if isAskedFor { refusedZones.insert(item.id.zoneID) }
        }
        for item in good where refusedZones.contains(item.id.zoneID) { fail(item, CKError(.batchRequestFailed)) }
        good.removeAll { refusedZones.contains($0.id.zoneID) }
        let atomic = good.filter { isAtomic && !$0.id.zoneID.zone.isDefault }
        let others = good.filter { !isAtomic || $0.id.zoneID.zone.isDefault }
        let inOrder = others.count > ZoneChunk<ModifyItem>.limit ? others.targetsFirst() : others
        return ZoneChunk.cut(atomic, by: \.id.zoneID, limit: .max) + ZoneChunk.cut(inOrder, by: \.id.zoneID)
    }

    /// Lets the keys of zones go that were found to be gone.
    func tell(_ keys: ZoneKeyring) {
        let failures = saveResults.map { ($0.key.zoneID, $0.value.failure) }
        for case (let zoneID, let error?) in failures { keys.heard(error, of: zoneID) }
    }

    mutating func fail(_ item: ModifyItem, _ error: CKError) {
        if item.record != nil {
            saveResults[item.id] = .failure(error)
        } else {
            deleteResults[item.id] = .failure(error)
        }
    }

    /// Tells what became of items whose outcome is known.
    func report(_ items: [ModifyItem], _ tell: (ModifyEvent) -> Void) {
        for item in items {
            if let record = item.record {
                if let result = saveResults[item.id] { tell(.saved(record, result)) }
            } else if let result = deleteResults[item.id] {
                tell(.deleted(item.id, result))
            }
        }
    }

    /// Takes the relay's word about one item.
    mutating func settle(_ item: ModifyItem, _ entry: ClientResponse.RecordEntry, _ reader: inout RecordReader) {
        switch (entry, item.record, item.state) {
        case (.record(let saved), let record?, let state?):
            // The zone tells the caller's name, so it comes first.
            _ = reader.zoneID(saved.id.zone)
            let (named, isWhole) = (reader.withCallerNamed(saved), reader.tellsAll)
            record.state.withLock { kept in
                kept.saved(as: named, sent: state.editCount, isWhole: isWhole)
                kept.secrets?.keyring = reader.caller.keys
                kept.assetSource = kept.assetSource ?? reader.assetSource(of: saved)
            }
            saveResults[item.id] = .success(record)
        case (.share(let saved, let details), let record?, let state?):
            _ = reader.zoneID(saved.id.zone)
            let (named, isWhole) = (reader.withCallerNamed(saved), reader.tellsAll)
            record.state.withLock { $0.saved(as: named, sent: state.editCount, isWhole: isWhole) }
            if let share = record as? CKShare, let sent = item.sharing {
                share.sharing.withLock { $0.rebase(onto: details, since: sent, caller: reader.caller) }
            }
            saveResults[item.id] = .success(record)
        case (.deleted, nil, _), (.record, nil, _), (.share, nil, _):
            deleteResults[item.id] = .success(())
        case (.failed(_, let failure), _, _):
            let error = error(failure, of: item, &reader)
            // A receipt may have ended: then the file goes again with the next try.
            if error.code == .invalidArguments { item.sentFiles.forEach { reader.caller.assets?.forget($0) } }
            fail(item, error)
        default:
            fail(item, CKError(.internalError, "The relay's answer for this item is of the wrong kind."))
        }
    }

    /// An item's error; a conflict carries the three versions that a merge needs.
    private func error(
        _ failure: ClientResponse.Failure,
        of item: ModifyItem,
        _ reader: inout RecordReader
    ) -> CKError {
        let error = CKError(failure, at: .item)
        guard error.code == .serverRecordChanged, let state = item.state else { return error }
        let ancestor = state.changeTag == nil ? nil : CKRecord(state: state.ancestor)
        let server = failure.serverRecord.map { reader.record($0, failure.serverShare, id: item.id) }
        return error.adding(CKRecordChangedErrorServerRecordKey, server)
            .adding(CKRecordChangedErrorClientRecordKey, item.record)
            .adding(CKRecordChangedErrorAncestorRecordKey, ancestor)
    }
}
