package import Records
import Synchronization
package import Wire

/// For those who keep shares of their own: what a share holds as values, and edits that outlive a conflict.
extension CKShare {
    /// The share as the relay had it last, in the form in which a file can keep it.
    ///
    /// Without pending changes of people; `nil` for a share that was never saved.
    package var kept: (record: Record, details: ClientShare)? {
        guard let details = sharing.withLock({ $0.known }) else { return nil }
        let state = state.withLock { $0 }
        var record = Record(id: state.id.record, type: state.type, fields: state.fields, changeTag: state.changeTag)
        record.created = state.created
        record.modified = state.modified
        return (record, details)
    }

    /// Puts this object's changes on top of what the relay has now: who was invited here stays invited, who was taken out
    /// stays out, and all that was changed elsewhere counts.
    package func rebase(onto server: CKShare) {
        guard let (record, details) = server.kept else { return }
        state.withLock { $0.saved(as: record, sent: 0, isWhole: true) }
        let caller = server.sharing.withLock { $0.caller }
        sharing.withLock { sharing in
            // What was never saved here is all the relay's.
            let before = sharing.known.map { ShareState($0, caller: nil) } ?? sharing
            sharing.rebase(onto: details, since: before, caller: caller)
        }
    }

    /// Somebody to be invited, without asking the relay who they are.
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
    /// Takes over what the relay has, and makes anew what was changed on this side since it was as `before`.
    mutating func rebase(onto details: ClientShare, since before: ShareState, caller: CallerMemory?) {
        let newPublic = publicPermission == before.publicPermission ? nil : publicPermission
        let mine = participants.filter { $0.role != .owner }
        let old = before.participants.filter { $0.role != .owner }
        let removed = old.filter { old in !mine.contains { $0.isEqual(old) } }
        // What is as it was says nothing: its newer state elsewhere stands.
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

    /// Changes somebody who is in, or lets them in.
    private mutating func put(_ participant: CKShare.Participant) {
        guard let known = participants.first(where: { $0.isEqual(participant) }) else { return add(participant) }
        known.permission = participant.permission
        known.role = participant.role
    }
}

extension ClientRequest.AccessRequestsWrite {
    /// What is said here, and was not yet.
    fileprivate func since(_ before: Self) -> Self {
        var rest = Self()
        rest.isAllowed = isAllowed == before.isAllowed ? nil : isAllowed
        rest.denied = denied.filter { !before.denied.contains($0) }
        rest.blocked = blocked.filter { !before.blocked.contains($0) }
        rest.unblocked = unblocked.filter { !before.unblocked.contains($0) }
        return rest
    }
}
