package import Records
import Wire

/// Creates what every user has from the first request on.
///
/// That is a default zone, and in the public database a `Users` record that only the user may write.
///
/// See Wire.md, "Users".
package struct ProvisionUser: Sendable {
    package var user: UserID
    package var now: Timestamp
    private let invitations: AssignInvitations

    /// - Parameters:
    ///   - user: The user who has sent a request.
    ///   - contacts: The user's verified addresses; pending invitations to them are assigned to the user.
    ///   - now: The time of the request.
    package init(_ user: UserID, contacts: [Share.Contact] = [], now: Timestamp) {
        self.user = user
        self.now = now
        invitations = AssignInvitations(user: user, contacts: contacts)
    }

    private var defaultZone: ZoneID { ZoneID(ZoneID.defaultName, owner: user) }
    private static let publicZone = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)

    /// Returns whether nothing is left to do.
    package func isDone(in reader: any StoreReader) throws(RelayError) -> Bool {
        guard try reader.zone(defaultZone) != nil, let zone = try reader.zone(Self.publicZone) else { return false }
        guard try reader.records(named: [user.recordName], in: zone)[user.recordName] != nil else { return false }
        return try invitations.isDone(in: reader)
    }

    package func run(in writer: any StoreWriter) throws(RelayError) {
        try invitations.run(in: writer)
        if try writer.zone(defaultZone) == nil { _ = try writer.makeZone(defaultZone, by: "") }
        let zone =
            if let zone = try writer.zone(Self.publicZone) { zone } else {
                try writer.makeZone(Self.publicZone, by: "")
            }
        guard try writer.records(named: [user.recordName], in: zone)[user.recordName] == nil else { return }
        if try writer.schema.types[RecordType.usersName] == nil {
            try writer.define([RecordType.usersName: .users])
        }
        let stamp = StoredRecord.Stamp(at: now, by: user, device: DeviceFingerprint(bits: 0))
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
