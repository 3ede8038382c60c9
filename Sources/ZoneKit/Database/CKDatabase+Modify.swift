import Foundation
import Records
import Synchronization
import Wire

extension CKDatabase {
    /// Saves a record, unless it has been changed by another device in the meantime.
    ///
    /// - Parameter record: The record to save. Only its changed fields are sent, and the object is updated with the
    ///   relay's response.
    /// - Returns: The same object.
    /// - Throws: `serverRecordChanged` with all three versions of the record, `zoneNotFound`, and the errors of any
    ///   request.
    @discardableResult
    public func save(_ record: CKRecord) async throws -> CKRecord {
        let results = try await modifyRecords(saving: [record], deleting: [])
        guard let result = results.saveResults[record.recordID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes a record, whatever its version on the relay is.
    ///
    /// Succeeds if the record does not exist.
    ///
    /// - Parameter recordID: The ID of the record.
    /// - Returns: The same ID.
    /// - Throws: `zoneNotFound`, and the errors of any request.
    @discardableResult
    public func deleteRecord(withID recordID: CKRecord.ID) async throws -> CKRecord.ID {
        let results = try await modifyRecords(saving: [], deleting: [recordID])
        try results.deleteResults[recordID]?.get()
        return recordID
    }

    /// Saves and deletes records, with one request per zone.
    ///
    /// - Parameters:
    ///   - recordsToSave: The records to save; each object is updated with the relay's response.
    ///   - recordIDsToDelete: The IDs of the records to delete, whatever their version on the relay is.
    ///   - savePolicy: The behavior if the relay has another version of a record; shares are always saved with
    ///     `ifServerRecordUnchanged`.
    ///   - atomically: Whether the changes in each custom zone succeed or fail together. Has no effect in the default
    ///     zone.
    /// - Returns: The result of each item. If an atomic zone fails, the items that caused it have their own errors, and
    ///   all others have `batchRequestFailed`.
    /// - Throws: An error that concerns the call as a whole; errors of items are not thrown. `invalidArguments` if a
    ///   record is saved twice, or saved and deleted. `limitExceeded` for more than 400 items in an atomic zone, or if
    ///   a request is too large. Nothing has been changed in these cases; repeat the call without the duplicate or in
    ///   smaller parts.
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

    /// Saves and deletes records, and reports each item's result as soon as it is known.
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
        // Another user may sign in before the last request is sent.
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

    /// Throws if a record is saved twice, or saved and deleted, because its result would be ambiguous.
    ///
    /// Not used for the batches of sync engines: there only that record fails, so that the other changes are not
    /// dropped.
    func refuseRepeated(_ saved: [CKRecord], _ deleted: [CKRecord.ID]) throws(CKError) {
        var met: Set<CKRecord.ID> = []
        if let twice = saved.first(where: { !met.insert($0.recordID).inserted })?.recordID {
            throw CKError(.invalidArguments, "Record '\(twice.recordName)' is saved twice in this call. Save it once.")
        }
        guard let both = deleted.first(where: met.contains) else { return }
        throw CKError(
            .invalidArguments,
            "Record '\(both.recordName)' is saved and deleted in this call. Remove one of the two."
        )
    }

    /// Throws if an atomic zone has more items than one request can contain, before anything is sent.
    private func refuseMany(_ ids: [CKRecord.ID]) throws(CKError) {
        let zones = ZoneChunk.cut(ids, by: \.zoneID, limit: .max).filter { !$0.zoneID.zone.isDefault }
        guard let most = zones.map(\.items.count).max(), most > ZoneChunk<ModifyItem>.atomicLimit else { return }
        throw CKError(
            .limitExceeded,
            "An atomic batch holds at most \(ZoneChunk<ModifyItem>.atomicLimit) items, but this one has \(most). "
                + "Send it in smaller parts."
        )
    }

    /// Sends one `records/modify` request.
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
            // The response to a failed atomic write is an error that lists all items.
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
            for item in rest {
                outcome.fail(item, CKError(.internalError, "The relay's response does not contain this item."))
            }
        }
    }
}

/// An event of one item while a batch is sent.
enum ModifyEvent {
    /// The progress of a record's upload, from 0 to 1.
    case progress(CKRecord, Double)
    case saved(CKRecord, Result<CKRecord, any Error>)
    case deleted(CKRecord.ID, Result<Void, any Error>)
}

/// The results of a batch, by item.
struct ModifyOutcome {
    private(set) var saveResults: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
    private(set) var deleteResults: [CKRecord.ID: Result<Void, any Error>] = [:]

    /// Fails the items that cannot be sent, and splits the rest into requests.
    ///
    /// If the caller has asked for an atomic write, the other items of the same zone fail too, even in a zone that is
    /// not atomic on the relay. CloudKit does the same, because its check ignores zones.
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

    /// Removes the keys of zones that no longer exist.
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

    /// Reports the results of items, as far as they are known.
    func report(_ items: [ModifyItem], _ tell: (ModifyEvent) -> Void) {
        for item in items {
            if let record = item.record {
                if let result = saveResults[item.id] { tell(.saved(record, result)) }
            } else if let result = deleteResults[item.id] {
                tell(.deleted(item.id, result))
            }
        }
    }

    /// Stores the relay's result for one item.
    mutating func settle(_ item: ModifyItem, _ entry: ClientResponse.RecordEntry, _ reader: inout RecordReader) {
        switch (entry, item.record, item.state) {
        case (.record(let saved), let record?, let state?):
            // The zone contains the current user's record name, which the next line needs.
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
            // The upload receipt may have expired; the next attempt then uploads the file again.
            if error.code == .invalidArguments { item.sentFiles.forEach { reader.caller.assets?.forget($0) } }
            fail(item, error)
        default:
            fail(item, CKError(.internalError, "The relay's response has the wrong kind of result for this item."))
        }
    }

    /// Returns the error of an item.
    ///
    /// A conflict contains the three versions of the record that a merge needs.
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
