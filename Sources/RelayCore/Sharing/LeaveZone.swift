import Records

/// Removes a participant from all shares in a zone.
///
/// This is the meaning of deleting a zone of the shared database; CloudKit's wire format has no operation for it. See
/// Wire.md, "Zone operations".
struct LeaveZone {
    let zone: ZoneID
    let caller: Caller
    let now: Timestamp

    /// Throws `zoneNotFound` if nothing in the zone is shared with the caller.
    func run(in writer: any StoreWriter) throws(RelayError) {
        guard let user = caller.user, let view = try writer.zone(zone, sharedWith: user)?.view else {
            throw .zoneNotFound
        }
        for access in view.shares {
            // Each save changes the zone, so it is read again.
            guard let whole = try writer.zone(zone), let name = try shareName(of: access, in: whole, writer),
                let record = try writer.records(named: [name], in: whole)[name], var share = record.sharing
            else { continue }
            share.participants.removeAll { $0.user == user }
            _ = try writer.save(share, in: record, of: whole, by: caller, now: now)
        }
    }

    private func shareName(
        of access: ZoneView.Access,
        in zone: Zone,
        _ writer: any StoreWriter
    ) throws(RelayError) -> String? {
        guard let root = access.root else { return Share.zoneWideName }
        return try writer.records(named: [root], in: zone)[root]?.shareMark?.record
    }
}
