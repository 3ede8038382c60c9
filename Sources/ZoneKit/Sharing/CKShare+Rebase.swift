package import Records
import Synchronization
package import Wire

/// Support for code that stores shares itself: a share's contents as values, and edits that survive a conflict.
extension CKShare {
    /// The share as the relay last returned it, in a form that can be stored in a file.
    ///
    /// Contains no unsaved changes of participants. `nil` for a share that was never saved.
    package var kept: (record: Record, details: ClientShare)? {
        guard let details = sharing.withLock({ $0.known }) else { return nil }
        let state = state.withLock { $0 }
        var record = Record(id: state.id.record, type: state.type, fields: state.fields, changeTag: state.changeTag)
        record.created = state.created
        record.modified = state.modified
        return (record, details)
    }

    /// Applies this object's unsaved changes to the relay's current version.
    ///
    /// Participants who were added here stay added, those who were removed here stay removed, and all changes by other
    /// devices are kept.
    package func rebase(onto server: CKShare) {
        guard let (record, details) = server.kept else { return }
        state.withLock { $0.saved(as: record, sent: 0, isWhole: true) }
        let caller = server.sharing.withLock { $0.caller }
        sharing.withLock { sharing in
            // For a share that was never saved here, everything comes from the relay.
            let before = sharing.known.map { ShareState($0, caller: nil) } ?? sharing
            sharing.rebase(onto: details, since: before, caller: caller)
        }
    }

    /// Creates a participant to invite without a request to the relay.
    package static func participant(
        inviting lookup: ClientIdentity.Lookup,
        _ permission: ParticipantPermission
    ) -> Participant {
        let identity = ClientIdentity(userRecordName: lookup.userRecordName, lookup: lookup)
        let made = Participant(inviting: identity, callerName: nil)
        made.permission = permission
        return made
    }
}

extension ShareState {
    /// Adopts the relay's version, and then applies the changes that were made on this side since `before`.
    mutating func rebase(onto details: ClientShare, since before: ShareState, caller: CallerMemory?) {
        let newPublic = publicPermission == before.publicPermission ? nil : publicPermission
        let mine = participants.filter { $0.role != .owner }
        let old = before.participants.filter { $0.role != .owner }
        let removed = old.filter { old in !mine.contains { $0.isEqual(old) } }
        // Participants that were not changed here keep their newer state from the relay.
        let changed = mine.filter { mine in
            old.first { $0.isEqual(mine) }.map { $0.permission != mine.permission || $0.role != mine.role } ?? true
        }
        let requests = requests.since(before.requests)
        take(details, caller: caller)
        self.requests = requests
        if let newPublic { publicPermission = newPublic }
        for participant in removed { remove(participant) }
        for participant in changed { put(participant) }
    }

    /// Changes a participant, or adds a new one.
    private mutating func put(_ participant: CKShare.Participant) {
        guard let known = participants.first(where: { $0.isEqual(participant) }) else { return add(participant) }
        known.permission = participant.permission
        known.role = participant.role
    }
}

extension ClientRequest.AccessRequestsWrite {
    /// Returns the requests that were added since `before`.
    fileprivate func since(_ before: Self) -> Self {
        var rest = Self()
        rest.isAllowed = isAllowed == before.isAllowed ? nil : isAllowed
        rest.denied = denied.filter { !before.denied.contains($0) }
        rest.blocked = blocked.filter { !before.blocked.contains($0) }
        rest.unblocked = unblocked.filter { !before.unblocked.contains($0) }
        return rest
    }
}
