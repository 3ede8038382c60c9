import Records
import RelayCore
import Wire

extension JSONWriter {
    /// Writes the members of an error dictionary into the open object.
    ///
    /// See Errors.md, "Error dictionary".
    mutating func members(of error: RelayError) {
        member("reason", error.reason)
        member("serverErrorCode", error.code.rawValue)
        if let fine = error.fineCode { member("ckErrorCode", fine.rawValue) }
        if let wait = error.retryAfter {
            key("retryAfter")
            let seconds = wait.inSeconds
            seconds == seconds.rounded() ? int(Int64(seconds)) : double(seconds)
        }
        if let url = error.redirectURL { member("redirectURL", url) }
        if let reason = error.formerZone {
            key("formerZone")
            object { $0.end(by: reason) }
        }
    }

    /// Writes the ID of a zone and the error that occurred for it.
    mutating func failure(of zone: ZoneID, _ error: RelayError) {
        object {
            $0.key("zoneID")
            ZoneIDCodec.write(zone, to: &$0)
            $0.members(of: error)
        }
    }

    /// Writes that a zone is deleted; the member `reason` is a Zonecast extension.
    mutating func end(by reason: ZoneDeletionReason) {
        member("deleted", true)
        if let word = reason.word { member("reason", word) }
    }

    /// Writes a zone dictionary.
    ///
    /// See Wire.md, "Zones".
    mutating func zone(_ zone: Zone, epoch: UInt64) {
        object {
            $0.key("zoneID")
            ZoneIDCodec.write(zone.id, to: &$0)
            if zone.isDeleted { return $0.end(by: zone.deletionReason) }
            if zone.tracksChanges { $0.member("syncToken", zone.token(epoch: epoch).encoded) }
            $0.member("atomic", zone.tracksChanges)
            // A participant cannot share a zone of somebody else.
            $0.member("isEligibleForZoneShare", zone.tracksChanges && zone.view == nil)
            $0.member("isEligibleForHierarchicalShare", zone.tracksChanges && zone.view == nil)
            if zone.sharing == .everything {
                // Zonecast extension: the record name of the zone-wide share.
                $0.key("share")
                $0.object { $0.member("recordName", Share.zoneWideName) }
            }
        }
    }
}

extension Zone {
    /// The token of the zone's latest change.
    func token(epoch: UInt64) -> ChangeToken {
        ChangeToken(kind: .zone, log: identity, epoch: epoch, position: lastChange)
    }
}
