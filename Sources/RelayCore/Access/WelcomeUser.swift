package import Records
import Wire

/// Gives a user what every user has from the first request on: a default zone and a `Users` record in the public
/// database that only they may write.
///
/// Wire reference 4.8.
package struct WelcomeUser: Sendable {
    package var user: UserID
    package var now: Timestamp

    package init(_ user: UserID, now: Timestamp) {
        self.user = user
        self.now = now
    }

    private var defaultZone: ZoneID { ZoneID(ZoneID.defaultName, owner: user) }
    private static let publicZone = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)

    /// Whether there is nothing left to do.
    package func isDone(in reader: any StoreReader) throws(RelayError) -> Bool {
        guard try reader.zone(defaultZone) != nil, let zone = try reader.zone(Self.publicZone) else { return false }
        return try reader.records(named: [user.recordName], in: zone)[user.recordName] != nil
    }

    package func run(in writer: any StoreWriter) throws(RelayError) {
        if try writer.zone(defaultZone) == nil { _ = try writer.makeZone(defaultZone, by: "") }
        let zone =
            if let zone = try writer.zone(Self.publicZone) { zone } else {
                try writer.makeZone(Self.publicZone, by: "")
            }
        guard try writer.records(named: [user.recordName], in: zone)[user.recordName] == nil else { return }
        if try writer.schema.types[RecordType.usersName] == nil {
            try writer.define([RecordType.usersName: .users])
        }
        let stamp = StoredRecord.Stamp(at: now, by: user, device: DeviceMark(bits: 0))
        let record = StoredRecord(
            name: user.recordName,
            type: RecordType.usersName,
            change: writer.takeChangeNumber(),
            created: stamp,
            modified: stamp,
            fields: FieldsJSON.empty
        )
        try writer.put([record], replacing: [:], in: zone, by: "")
    }
}
