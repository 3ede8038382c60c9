package import Records
package import Wire

/// Makes `CKRecord`s of a database's answers.
///
/// The relay names the caller by their record name; programs know them as `CKCurrentUserDefaultName`. In the private
/// database every zone is the caller's. Elsewhere the name must be known from `users/caller`.
///
/// To be made before the request: an answer that comes after somebody else has signed in does not name them.
package struct RecordReader {
    package var scope: DatabaseScope
    package let caller: CallerMemory
    private let generation: Int
    private var zones: [ZoneID: CKRecordZone.ID] = [:]

    package init(scope: DatabaseScope, caller: CallerMemory) {
        self.scope = scope
        self.caller = caller
        generation = caller.generation
    }

    /// Whether the answer to a save has all that the record has: in the public database there is what one may write, and not read.
    var tellsAll: Bool { scope != .public }

    /// The zone as programs know it; one object per zone and reader.
    package mutating func zoneID(_ zone: ZoneID) -> CKRecordZone.ID {
        if let known = zones[zone] { return known }
        if scope == .private, zone.owner != .caller {
            caller.learn(zone.owner.recordName, generation: generation)
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

    /// The record under an address that is known already.
    package func record(_ record: Record, _ share: ClientShare? = nil, id: CKRecord.ID) -> CKRecord {
        var state = RecordState(withCallerNamed(record), id: id)
        state.secrets?.keyring = caller.keys
        state.assetSource = assetSource(of: record)
        guard let share else { return CKRecord(state: state) }
        return CKShare(state: state, sharing: ShareState(share, caller: caller))
    }

    /// From where the record's files come; `nil` where it has none.
    func assetSource(of record: Record) -> AssetSource? {
        guard record.fields.values.contains(where: \.type.isAsset) else { return nil }
        return caller.assets.map { AssetSource(keeper: $0, scope: scope) }
    }

    /// The record with the caller's own name put in where it stands for them.
    package func withCallerNamed(_ record: Record) -> Record {
        guard let me = caller.recordName else { return record }
        var record = record
        if record.created?.by.recordName == me { record.created?.by = .caller }
        if record.modified?.by.recordName == me { record.modified?.by = .caller }
        return record
    }
}
