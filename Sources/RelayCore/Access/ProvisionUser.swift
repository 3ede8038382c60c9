package import Records
import Wire

/// Creates what every user has from the first request on.
///
/// That is a default zone, and in the public database a `Users` record that only the user may write. The user also gets
/// the pending invitations to their verified addresses, since they may have had no account when they were invited; the
/// share records do not change, because the owner sees the user only after the user has joined.
///
/// Each step is a write of its own within one owner's data, and changes nothing if it was done before. The steps that a
/// crash left undone are the remaining ones of the next request. See Wire.md, "Users", and
/// Reliability.md, "Owners of writes".
package struct ProvisionUser: Sendable {
    package enum Step: Hashable, Sendable {
        case defaultZone
        case userRecord
        /// Assigns the pending invitations to shares of one owner.
        case invitations(from: UserID)
    }

    package var user: UserID
    package var now: Timestamp
    private let contacts: [Share.Contact]

    /// - Parameters:
    ///   - user: The user who has sent a request.
    ///   - contacts: The user's verified addresses; pending invitations to them are assigned to the user.
    ///   - now: The time of the request.
    package init(_ user: UserID, contacts: [Share.Contact] = [], now: Timestamp) {
        self.user = user
        self.now = now
        self.contacts = contacts
    }

    private var defaultZone: ZoneID { ZoneID(ZoneID.defaultName, owner: user) }
    private static let publicZone = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)

    /// Returns the steps that are left to do, in their order.
    package func remainingSteps(in reader: any StoreReader) throws(RelayError) -> [Step] {
        var steps: [Step] = []
        if try reader.zone(defaultZone) == nil { steps.append(.defaultZone) }
        if try !hasRecord(reader.zone(Self.publicZone), in: reader) { steps.append(.userRecord) }
        guard !contacts.isEmpty else { return steps }
        // Users need no invitation to their own zones.
        let owners = Set(try reader.shares(inviting: contacts).map(\.zone.id.owner)).subtracting([user])
        return steps + owners.sorted { $0.recordName < $1.recordName }.map { .invitations(from: $0) }
    }

    /// Returns the owner whose data the step changes; see `StoreWrite.owner`.
    package func owner(of step: Step) -> UserID {
        switch step {
        case .defaultZone: user
        case .userRecord: Zone.publicOwner
        case .invitations(let owner): owner
        }
    }

    package func prefetch(of step: Step) -> Prefetch {
        switch step {
        case .defaultZone: Prefetch([defaultZone: []])
        case .userRecord: Prefetch([Self.publicZone: [user.recordName]])
        case .invitations: Prefetch()
        }
    }

    package func run(_ step: Step, in writer: any StoreWriter) throws(RelayError) {
        switch step {
        case .defaultZone: if try writer.zone(defaultZone) == nil { _ = try writer.makeZone(defaultZone, by: "") }
        case .userRecord: try makeRecord(in: writer)
        case .invitations(let owner): try writer.assignInvitations(to: contacts, inZonesOf: owner, to: user)
        }
    }

    private func hasRecord(_ zone: Zone?, in reader: any StoreReader) throws(RelayError) -> Bool {
        guard let zone else { return false }
        return try reader.records(named: [user.recordName], in: zone)[user.recordName] != nil
    }

    private func makeRecord(in writer: any StoreWriter) throws(RelayError) {
        let known = try writer.zone(Self.publicZone)
        guard try !hasRecord(known, in: writer) else { return }
        let zone = if let known { known } else { try writer.makeZone(Self.publicZone, by: "") }
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
