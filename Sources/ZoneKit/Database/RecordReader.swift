package import Records
package import Wire

/// Creates `CKRecord`s from a database's responses.
///
/// The relay identifies the current user by their record name, apps by `CKCurrentUserDefaultName`. Responses of the
/// private database contain the record name as the owner of every zone; for other databases it must be known from
/// `users/caller`.
///
/// Create a reader before the request. If another user signs in before the response arrives, the response does not
/// change what is known about the new user.
package struct RecordReader {
    package var scope: DatabaseScope
    package let caller: CallerInfo
    private let generation: Int
    private var zones: [ZoneID: CKRecordZone.ID] = [:]

    package init(scope: DatabaseScope, caller: CallerInfo) {
        self.scope = scope
        self.caller = caller
        generation = caller.generation
    }

    /// Whether the response to a save contains all fields.
    ///
    /// In the public database a user may write a record without reading it.
    var returnsAllFields: Bool { scope != .public }

    /// Returns the zone's ID as the app knows it, the same object for each zone of a reader.
    package mutating func zoneID(_ zone: ZoneID) -> CKRecordZone.ID {
        if let known = zones[zone] { return known }
        if scope == .private, zone.owner != .caller {
            caller.setCallerName(zone.owner.recordName, generation: generation)
        }
        let isCallers = scope != .shared || zone.owner.recordName == caller.recordName
        let made = CKRecordZone.ID(
            zoneName: zone.zoneName,
            ownerName: isCallers ? CKCurrentUserDefaultName : zone.owner.recordName
        )
        zones[zone] = made
        return made
    }

    package mutating func record(_ record: Record, _ share: ClientShare? = nil) -> CKRecord {
        let id = CKRecord.ID(recordName: record.id.recordName, zoneID: zoneID(record.id.zone))
        return self.record(record, share, id: id)
    }

    /// Creates a record with a known ID.
    package func record(_ record: Record, _ share: ClientShare? = nil, id: CKRecord.ID) -> CKRecord {
        var state = RecordState(replacingCallerName(record), id: id)
        state.secrets?.keyring = caller.keys
        state.assetSource = assetSource(of: record)
        guard let share else { return CKRecord(state: state) }
        return CKShare(state: state, sharing: ShareState(share, caller: caller))
    }

    /// Returns the source of the record's files, or `nil` if it has none.
    func assetSource(of record: Record) -> AssetSource? {
        guard record.fields.values.contains(where: \.type.isAsset) else { return nil }
        return caller.assets.map { AssetSource(assetClient: $0, scope: scope) }
    }

    /// Returns the record with the placeholder in place of the current user's record name.
    package func replacingCallerName(_ record: Record) -> Record {
        guard let me = caller.recordName else { return record }
        var record = record
        if record.created?.by.recordName == me { record.created?.by = .caller }
        if record.modified?.by.recordName == me { record.modified?.by = .caller }
        return record
    }
}
