import Foundation
import Records
import Synchronization
import Wire

extension CKDatabase {
    /// Fetches a record by its ID.
    ///
    /// - Parameter recordID: The ID of the record.
    /// - Returns: A new record object.
    /// - Throws: `unknownItem` if the record does not exist, `zoneNotFound` if its zone does not exist, and the errors
    ///   of any request.
    public func record(for recordID: CKRecord.ID) async throws -> CKRecord {
        let results = try await records(for: [recordID])
        guard let result = results[recordID] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Fetches records by their IDs.
    ///
    /// - Parameters:
    ///   - ids: The IDs of the records, in any zones. Each request covers up to 200 records of one zone.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    /// - Returns: A record or an error for each ID.
    /// - Throws: An error that concerns the request as a whole.
    public func records(
        for ids: [CKRecord.ID],
        desiredKeys: [CKRecord.FieldKey]? = nil
    ) async throws -> [CKRecord.ID: Result<CKRecord, any Error>] {
        var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
        let chunks = ZoneChunk.split(ids, by: \.zoneID)
        let user = AccountBinding.forCurrentTask(try session.connection())
        try await runChunks(chunks) { chunk throws(CKError) in
            let found = try await user.perform { () throws(CKError) in
                try await fetch(chunk, desiredKeys: desiredKeys)
            }
            for (id, result) in found { results[id] = result }
        } failed: { chunk, error in
            for id in chunk.items { results[id] = .failure(error) }
        }
        return results
    }

    /// Fetches a chunk, and halves it if the response would be too large.
    private func fetch(
        _ chunk: ZoneChunk<CKRecord.ID>,
        desiredKeys: [String]?
    ) async throws(CKError) -> [CKRecord.ID: Result<CKRecord, any Error>] {
        do throws(CKError) {
            return try await lookUp(chunk, desiredKeys: desiredKeys)
        } catch  where error.code == .limitExceeded && chunk.items.count > 1 {
            var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
            for half in chunk.halves { results.merge(try await fetch(half, desiredKeys: desiredKeys)) { $1 } }
            return results
        }
    }

    /// Sends one `records/lookup` request.
    private func lookUp(
        _ chunk: ZoneChunk<CKRecord.ID>,
        desiredKeys: [String]?
    ) async throws(CKError) -> [CKRecord.ID: Result<CKRecord, any Error>] {
        let zone = chunk.zoneID
        let connection = try await connectionResolvingCaller()
        // Apps know the current user's record by this name; every user's record is in the public database.
        let me = CKRecord.ID(recordName: CKCurrentUserDefaultName)
        let myName = databaseScope == .public && chunk.items.contains(me) ? try await callerName() : me.recordName
        let names = chunk.items.map { $0 == me ? myName : $0.recordName }
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let requestTime = connection.now
        let entries = try await client.records(
            named: names,
            in: zone.zone,
            .asInResponse,
            desiredKeys: desiredKeys
        )
        connection.didSee(
            names.lazy.map { CKRecord.ID(recordName: $0, zoneID: zone) },
            .lookup,
            of: scope,
            at: requestTime
        )
        var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
        // A record that the response omits is not necessarily deleted.
        var missing = CKError(.internalError, "The relay's response does not contain this record.")
        for entry in entries {
            switch entry {
            case .record(let found):
                let id = CKRecord.ID(recordName: found.id.recordName, zoneID: zone)
                results[id] = .success(reader.record(found))
            case .share(let found, let share):
                let id = CKRecord.ID(recordName: found.id.recordName, zoneID: zone)
                results[id] = .success(reader.record(found, share))
            case .deleted(let name, _, _):
                results[CKRecord.ID(recordName: name, zoneID: zone)] = .failure(CKError(.unknownItem))
            case .failed(let name?, let failure):
                results[CKRecord.ID(recordName: name, zoneID: zone)] = .failure(CKError(failure, at: .item))
            case .failed(nil, let failure): missing = CKError(failure, at: .item)
            }
        }
        if myName != me.recordName {
            let named = CKRecord.ID(recordName: myName)
            results[me] = results[named]
            if !chunk.items.contains(named) { results[named] = nil }
        }
        for id in chunk.items where results[id] == nil { results[id] = .failure(missing) }
        try await keys.openKeys(for: results.values.lazy.compactMap { try? $0.get() })
        return results
    }
}

extension CKDatabase {
    /// Fetches the first page of a query's results.
    ///
    /// - Parameters:
    ///   - query: The query to run.
    ///   - zoneID: The zone to search; `nil` for all zones of the database.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: Records in the query's order, and a cursor if there are more.
    /// - Throws: `unknownItem` if the record type does not exist yet, `invalidArguments` if the relay does not support
    ///   the query, and the errors of any request.
    public func records(
        matching query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        guard let query = try query.query() else { return ([], nil) }
        let resolved = try await resolvingCaller(in: query)
        // The public database has only the default zone, so a query of all zones is not supported there.
        let zone = zoneID ?? (databaseScope == .public ? .default : nil)
        let start = QueryPage(query: ClientRequest.encode(resolved), zoneID: zone, marker: nil)
        return try await page(start, desiredKeys: desiredKeys, limit: resultsLimit)
    }

    /// Fetches up to 200 records that a query matches; the API that preceded cursors.
    ///
    /// - Parameters:
    ///   - query: The query to run.
    ///   - zoneID: The zone to search; `nil` for all zones of the database.
    /// - Returns: Records in the query's order.
    /// - Throws: `unknownItem` if the record type does not exist yet, `invalidArguments` if the relay does not support
    ///   the query, and the errors of any request.
    @_disfavoredOverload
    public func records(matching query: CKQuery, inZoneWith zoneID: CKRecordZone.ID?) async throws -> [CKRecord] {
        let page: (matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?)
        page = try await records(matching: query, inZoneWith: zoneID, desiredKeys: nil)
        return try page.matchResults.map { try $0.1.get() }
    }

    /// Fetches the next page of a query's results.
    ///
    /// - Parameters:
    ///   - queryCursor: The cursor of the previous page.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: Records in the query's order, and a cursor if there are more.
    /// - Throws: The errors of any request.
    public func records(
        continuingMatchFrom queryCursor: CKQueryOperation.Cursor,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        let start = QueryPage(query: queryCursor.query, zoneID: queryCursor.zoneID, marker: queryCursor.marker)
        return try await page(start, desiredKeys: desiredKeys, limit: resultsLimit)
    }

    /// The parameters of a request for one page.
    private struct QueryPage {
        var query: [UInt8]
        var zoneID: CKRecordZone.ID?
        var marker: String?
    }

    private func page(
        _ start: QueryPage,
        desiredKeys: [String]?,
        limit: Int
    ) async throws(CKError) -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        let connection = try await connectionResolvingCaller()
        var request = QueryRequest(
            start.query,
            in: start.zoneID?.zone,
            desiredKeys: desiredKeys,
            marker: start.marker
        )
        request.limit = Self.pageSize(limit)
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let requestTime = connection.now
        let page = try await client.records(matching: request)
        var results: [(CKRecord.ID, Result<CKRecord, any Error>)] = []
        for entry in page.entries {
            let record: CKRecord
            switch entry {
            case .record(let found): record = reader.record(found)
            case .share(let found, let share): record = reader.record(found, share)
            case .deleted: continue
            case .failed(let name, let failure):
                let error = CKError(failure, at: .item)
                guard let name else { throw error }
                results.append((CKRecord.ID(recordName: name, zoneID: start.zoneID ?? .default), .failure(error)))
                continue
            }
            results.append((record.recordID, .success(record)))
        }
        connection.didSee(results.lazy.map(\.0), .listing, of: scope, at: requestTime)
        try await keys.openKeys(for: results.lazy.compactMap { try? $0.1.get() })
        let cursor = page.marker.map { CKQueryOperation.Cursor(marker: $0, query: start.query, zoneID: start.zoneID) }
        return (results, cursor)
    }
}

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
        try rejectDuplicates(recordsToSave, recordIDsToDelete)
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
        if isAtomic { try rejectTooManyItems(recordsToSave.map(\.recordID) + recordIDsToDelete) }
        // Another user may sign in before the last request is sent.
        let user = AccountBinding.forCurrentTask(try session.connection())
        var outcome = ModifyOutcome()
        let drafts = recordsToSave.map(Draft.init)
        var files = try await sendFiles(of: drafts, savePolicy, for: user, tell)
        let caller = try await user.perform { () async throws(CKError) in
            try await keys.sealSecrets(of: drafts, savePolicy, &files)
            return try await callerName(for: drafts)
        }
        let items = ModifyItem.items(
            saving: drafts,
            deleting: recordIDsToDelete,
            savePolicy,
            files,
            caller: caller
        )
        let chunks = outcome.rejectUnsendable(items, asked: atomically, isAtomic: isAtomic)
        outcome.report(items, tell)
        try await runChunks(chunks) { chunk throws(CKError) in
            try await user.perform { () throws(CKError) in
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
            try? await user.perform { () async throws(CKError) in await keys.provideKey(by: share) }
        }
        return outcome
    }

    /// Throws if a record is saved twice, or saved and deleted, because its result would be ambiguous.
    ///
    /// Not used for the batches of sync engines: there only that record fails, so that the other changes are not
    /// dropped.
    func rejectDuplicates(_ saved: [CKRecord], _ deleted: [CKRecord.ID]) throws(CKError) {
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
    private func rejectTooManyItems(_ ids: [CKRecord.ID]) throws(CKError) {
        let zones = ZoneChunk.split(ids, by: \.zoneID, limit: .max).filter { !$0.zoneID.zone.isDefault }
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
        let connection = try await connectionResolvingCaller()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let entries = try await client.modifyRecords(
            chunk.items.map(\.write),
            in: chunk.zoneID.zone,
            .asInResponse,
            atomically: atomically
        )
        for (item, entry) in zip(chunk.items, entries) { outcome.apply(item, entry, &reader) }
        for item in chunk.items.dropFirst(entries.count) {
            outcome.fail(item, CKError(.internalError, "The relay's response does not contain this item."))
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
    mutating func rejectUnsendable(
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
        let inOrder = others.count > ZoneChunk<ModifyItem>.limit ? others.inDependencyOrder() : others
        return ZoneChunk.split(atomic, by: \.id.zoneID, limit: .max) + ZoneChunk.split(inOrder, by: \.id.zoneID)
    }

    /// Removes the keys of zones that no longer exist.
    func tell(_ keys: ZoneKeyring) {
        let failures = saveResults.map { ($0.key.zoneID, $0.value.failure) }
        for case (let zoneID, let error?) in failures { keys.requestFailed(error, of: zoneID) }
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
    mutating func apply(_ item: ModifyItem, _ entry: ClientResponse.RecordEntry, _ reader: inout RecordReader) {
        switch (entry, item.record, item.state) {
        case (.record(let saved), let record?, let state?):
            // The zone contains the current user's record name, which the next line needs.
            _ = reader.zoneID(saved.id.zone)
            let (named, isWhole) = (reader.replacingCallerName(saved), reader.returnsAllFields)
            record.state.withLock { kept in
                kept.saved(as: named, sent: state.editCount, isWhole: isWhole)
                kept.secrets?.keyring = reader.caller.keys
                kept.assetSource = kept.assetSource ?? reader.assetSource(of: saved)
            }
            saveResults[item.id] = .success(record)
        case (.share(let saved, let details), let record?, let state?):
            _ = reader.zoneID(saved.id.zone)
            let (named, isWhole) = (reader.replacingCallerName(saved), reader.returnsAllFields)
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

/// The results of uploading the files of one call's records.
struct SentFiles {
    /// The assets to save in the records' fields, by asset object of the draft.
    var assets: [ObjectIdentifier: Asset] = [:]
    /// The encrypted fields to send.
    var sealed: [CKRecord.ID: [String: FieldValue?]] = [:]
    /// The errors of records whose files could not be uploaded.
    var failures: [CKRecord.ID: CKError] = [:]

    /// Returns the assets of a field as they are sent.
    ///
    /// Assets that the relay already has are sent without their download URL.
    func value(of key: String, in state: RecordState) -> FieldValue? {
        guard let field = state.fields[key] else { return nil }
        var rest = (state.assets[key] ?? [])[...]
        return field.mappingAssets { known in
            var asset = rest.popFirst().map { assets[ObjectIdentifier($0)] ?? $0.wire } ?? known
            asset.downloadURL = nil
            return asset
        }
    }
}

extension RecordState {
    /// Returns the assets that a save sends, with their fields.
    func assetsToSend(_ policy: CKModifyRecordsOperation.RecordSavePolicy) -> [(key: String, asset: CKAsset)] {
        assets.filter { policy == .allKeys || edits[$0.key] != nil }.sorted { $0.key < $1.key }
            .flatMap { key, assets in assets.map { (key, $0) } }
    }
}

extension ModifyItem {
    /// The checksums of the files that were uploaded for the item.
    var sentFiles: [String] {
        write.fields.values.flatMap { $0?.assets ?? [] }.filter { $0.receipt != nil }.map(\.fileChecksum)
    }
}

extension CKDatabase {
    /// Uploads the files of records, once per content, before the records themselves.
    ///
    /// If a file cannot be read or is rejected, its record fails. A failure that would affect all files is thrown, and
    /// so is a change of the user: no file is uploaded as another user than `user`.
    func sendFiles(
        of drafts: [Draft],
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        for user: AccountBinding,
        _ tell: (ModifyEvent) -> Void
    ) async throws(CKError) -> SentFiles {
        var sent = SentFiles()
        for draft in drafts where !draft.state.assets.isEmpty {
            let state = draft.state
            let assets = state.assetsToSend(policy)
            for (position, (key, asset)) in assets.enumerated() {
                do throws(CKError) {
                    try await user.perform { () async throws(CKError) in
                        try await send(asset, key, of: state, &sent)
                    }
                    tell(.progress(draft.record, Double(position + 1) / Double(assets.count + 1)))
                } catch  where error.isFileError {
                    sent.failures[state.id] = error
                }
            }
        }
        return sent
    }

    private func send(
        _ asset: CKAsset,
        _ key: String,
        of state: RecordState,
        _ sent: inout SentFiles
    ) async throws(CKError) {
        guard let assetClient = try session.connection().caller.assets else { return }
        let target = AssetOrigin(scope: scope, record: state.id.record, field: key)
        var file = asset.fileToUpload
        if let origin = asset.origin {
            // The relay accepts the field's previous asset as it is, and an asset of another record with a receipt.
            guard origin != target else { return }
            if origin.scope == scope,
                let fresh = try await assetClient.rereference(origin, asset.wire.fileChecksum, settings)
            {
                sent.assets[ObjectIdentifier(asset)] = fresh
                return
            }
            do {
                file = try await asset.download()
            } catch {
                throw CKError(from: error)
            }
        }
        guard let file else { throw CKError(.assetFileNotFound) }
        let upload = AssetClient.Upload(
            file: file,
            recordType: state.type,
            recordName: state.id.recordName,
            field: key,
            settings: settings
        )
        let stored = try await assetClient.upload(upload, to: scope, in: state.id.zoneID.zone)
        sent.assets[ObjectIdentifier(asset)] = stored
    }
}

extension CKError {
    /// Whether the error concerns a single file, so that other files may succeed.
    fileprivate var isFileError: Bool {
        switch code {
        case .assetFileNotFound, .assetFileModified, .assetNotAvailable, .limitExceeded, .quotaExceeded,
            .permissionFailure, .invalidArguments, .zoneNotFound, .unknownItem:
            true
        default: false
        }
    }
}
