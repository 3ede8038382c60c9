import Foundation
package import Records
import SyncCore
package import Wire

extension CKDatabase {
    /// Fetches a zone with its capabilities.
    ///
    /// - Parameter zoneID: The ID of the zone.
    /// - Returns: The zone.
    /// - Throws: `zoneNotFound`, and the errors of any request.
    public func recordZone(for zoneID: CKRecordZone.ID) async throws -> CKRecordZone {
        let results = try await recordZones(for: [zoneID])
        guard let result = results[zoneID] else { throw CKError(.zoneNotFound) }
        return try result.get()
    }

    /// Fetches zones with their capabilities.
    ///
    /// - Parameter ids: The IDs of the zones.
    /// - Returns: A zone or an error for each ID.
    /// - Throws: An error that concerns the request as a whole.
    public func recordZones(
        for ids: [CKRecordZone.ID]
    ) async throws -> [CKRecordZone.ID: Result<CKRecordZone, any Error>] {
        var results: [CKRecordZone.ID: Result<CKRecordZone, any Error>] = [:]
        for start in stride(from: 0, to: ids.count, by: 200) {
            let part = ids[start..<min(start + 200, ids.count)]
            let connection = try session.connection()
            let asked = connection.now
            let document = try await call("zones/lookup", ClientRequest.lookup(zones: part.map(\.zone)))
            for (id, entry) in zip(part, try zoneEntries(document)) { results[id] = zoneResult(entry, asked: id) }
            connection.saw(part.filter { (try? results[$0]?.get()) != nil }, of: scope, at: asked)
        }
        for id in ids where results[id] == nil { results[id] = .failure(CKError(.zoneNotFound)) }
        return results
    }

    /// Fetches all zones of the database.
    ///
    /// The default zone is first, if there is one.
    public func allRecordZones() async throws -> [CKRecordZone] {
        let connection = try session.connection()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let asked = connection.now
        let document = try await call("zones/list")
        let zones: [CKRecordZone] = try zoneEntries(document).compactMap { entry in
            switch entry {
            case .zone(let zone): return CKRecordZone(zone, id: reader.zoneID(zone.id))
            case .deleted: return nil
            // If the zone were omitted, the caller would conclude that it does not exist.
            case .failed(_, let failure): throw CKError(failure, at: .item)
            }
        }
        connection.saw(zones.lazy.map(\.zoneID), of: scope, at: asked)
        return zones
    }

    /// Creates a custom zone.
    ///
    /// Has no effect if the zone exists.
    ///
    /// - Parameter zone: The zone.
    /// - Returns: The zone with its capabilities.
    /// - Throws: `invalidArguments` if the name is not valid, `badDatabase` for the public database, and the errors of
    ///   any request.
    @discardableResult
    public func save(_ zone: CKRecordZone) async throws -> CKRecordZone {
        let results = try await modifyRecordZones(saving: [zone], deleting: [])
        guard let result = results.saveResults[zone.zoneID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes a custom zone with all its records.
    ///
    /// In the shared database, removes the current user from the zone's shares instead.
    ///
    /// - Parameter zoneID: The ID of the zone.
    /// - Returns: The same ID.
    /// - Throws: `zoneNotFound`, `badDatabase` for the public database, and the errors of any request.
    @discardableResult
    public func deleteRecordZone(withID zoneID: CKRecordZone.ID) async throws -> CKRecordZone.ID {
        let results = try await modifyRecordZones(saving: [], deleting: [zoneID])
        try results.deleteResults[zoneID]?.get()
        return zoneID
    }

    /// Creates and deletes custom zones.
    ///
    /// - Parameters:
    ///   - recordZonesToSave: The zones to create.
    ///   - recordZoneIDsToDelete: The IDs of the zones to delete with all their records; in the shared database, the
    ///     zones to leave.
    /// - Returns: The result of each zone.
    /// - Throws: `badDatabase` for the public database, or an error that concerns the request as a whole.
    public func modifyRecordZones(
        saving recordZonesToSave: [CKRecordZone],
        deleting recordZoneIDsToDelete: [CKRecordZone.ID]
    ) async throws -> (
        saveResults: [CKRecordZone.ID: Result<CKRecordZone, any Error>],
        deleteResults: [CKRecordZone.ID: Result<Void, any Error>]
    ) {
        try requireZones()
        var entries: ArraySlice<ClientResponse.ZoneEntry> = []
        let (made, gone) = (recordZonesToSave.map(\.zoneID.zone), recordZoneIDsToDelete.map(\.zone))
        // Another user may have zones with the same names.
        let user = AccountBinding.ofNow(try session.connection())
        for part in BatchLimits.parts(made, gone) {
            let document = try await user.during { () throws(CKError) in
                try await modifyZones(
                    creating: part.first,
                    deleting: part.second,
                    remembered: settings.isRepeated ? .untilAnswered : .minutes
                )
            }
            entries += try zoneEntries(document)
        }
        var saves: [CKRecordZone.ID: Result<CKRecordZone, any Error>] = [:]
        var deletes: [CKRecordZone.ID: Result<Void, any Error>] = [:]
        let missing = ClientResponse.Failure(
            error: .init(.internalError, "The relay's response does not contain this zone.")
        )
        for zone in recordZonesToSave {
            saves[zone.zoneID] = zoneResult(entries.popFirst() ?? .failed(nil, missing), asked: zone.zoneID)
        }
        for id in recordZoneIDsToDelete {
            switch entries.popFirst() ?? .failed(nil, missing) {
            case .failed(_, let failure): deletes[id] = .failure(CKError(failure, at: .item))
            case .deleted, .zone:
                deletes[id] = .success(())
                try session.connection().zoneKeys.forget(id)
            }
        }
        return (saves, deletes)
    }

    /// Deletes a custom zone and reports the reason to the user's other devices.
    ///
    /// Succeeds if the zone does not exist.
    package func end(_ zoneID: CKRecordZone.ID, because loss: ZoneLoss) async throws(CKError) {
        let document = try await modifyZones(creating: [], deleting: [zoneID.zone], because: loss)
        for case .failed(_, let failure) in try zoneEntries(document) {
            let error = CKError(failure, at: .item)
            if error.code != .zoneNotFound { throw error }
        }
        try session.connection().zoneKeys.forget(zoneID)
    }

    /// Sends one `zones/modify` request.
    package func modifyZones(
        creating: [ZoneID],
        deleting: [ZoneID],
        because loss: ZoneLoss = .deleted,
        remembered memory: LostWrites.Memory = .untilAnswered
    ) async throws(CKError) -> JSONDocument {
        let connection = try session.connection()
        do throws(CallFailure) {
            return try await connection.modify(
                creating: creating,
                deleting: deleting,
                because: loss,
                of: scope,
                settings: settings,
                remembered: memory
            )
        } catch {
            throw error.error
        }
    }

    private func zoneEntries(_ document: JSONDocument) throws(CKError) -> [ClientResponse.ZoneEntry] {
        try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
    }

    /// Returns the result for a zone under the ID that the caller has used.
    private func zoneResult(
        _ entry: ClientResponse.ZoneEntry,
        asked id: CKRecordZone.ID
    ) -> Result<CKRecordZone, any Error> {
        switch entry {
        case .zone(let zone): .success(CKRecordZone(zone, id: id))
        case .deleted: .failure(CKError(.zoneNotFound))
        case .failed(_, let failure):
            .failure(CKError(failure.error.code == .notFound ? .init(.zoneNotFound, failure) : failure, at: .item))
        }
    }
}

extension ClientResponse.Failure {
    /// The same failure with another code: some relays report a missing zone as a missing item.
    fileprivate init(_ code: ErrorCode, _ failure: ClientResponse.Failure) {
        self = failure
        error.code = code
    }
}

extension CKRecordZone {
    convenience init(_ zone: ClientResponse.Zone, id: CKRecordZone.ID) {
        var capabilities: Capabilities = []
        if zone.syncToken != nil { capabilities.insert(.fetchChanges) }
        if zone.isAtomic { capabilities.insert(.atomic) }
        if zone.isEligibleForHierarchicalShare { capabilities.insert(.sharing) }
        if zone.isEligibleForZoneShare { capabilities.insert(.zoneWideSharing) }
        let share = zone.share.map {
            CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: id), action: .none)
        }
        self.init(zoneID: id, capabilities: capabilities, share: share)
    }
}
