import Records
import Synchronization
import Wire
import ZoneTesting

/// Invariant e: a connected user who may see a change gets a notice within two seconds, never before the commit.
extension Judge {
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier) {
        let time = now
        switch try? ServerFrame(decoding: frame) {
        case .ready(let ready)?:
            state.withLock { $0.sockets[socket] = Listening(device: device, user: ready.userRecordName) }
        case .notice(let notice)?:
            note("notice to \(device) about \(notice.zone?.zoneName ?? "everything")")
            state.withLock { $0.take(notice, device, socket, time) }
        default: break
        }
    }

    func ended(socket: ObjectIdentifier, device: String) {
        state.withLock { state in
            state.sockets[socket] = nil
            state.due = state.due.filter { $0.key.socket != socket }
        }
    }

    /// Reports overdue notices.
    ///
    /// Must be called regularly.
    func judgeNotices() {
        let time = now
        state.withLock { state in
            for (due, end) in state.due where end < time {
                let device = state.sockets[due.socket]?.device ?? "?"
                state.accuse("e", "\(device) got no notice about a change of \(due.zone) within 2 s", time)
                state.due[due] = nil
            }
        }
    }
}

extension Judge.State {
    fileprivate mutating func take(_ notice: Notice, _ device: String, _ socket: ObjectIdentifier, _ time: Int64) {
        let user = notice.user.recordName
        guard let zone = notice.zone else {
            // A notice about the whole database covers all of its zones.
            due = due.filter { $0.key.socket != socket || ($0.key.zone.owner == user) != (notice.scope == .private) }
            return
        }
        let owner = notice.scope == .private ? user : zone.owner.recordName
        let name = ZoneName(owner: owner, name: zone.zoneName)
        due[Judge.Due(socket: socket, zone: name)] = nil
        if owner != user, !seen.contains(Judge.Removal(user: user, zone: name)) {
            accuse("f", "\(device) was told of \(name), which was never shared with \(user.prefix(6))", time)
        }
        guard let token = notice.syncToken.flatMap({ ChangeToken(encoded: $0) }), token.position > highest else {
            return
        }
        let change = token.position
        guard isBlind else {
            return accuse("e", "\(device) was told of change \(change) of \(name) before it was committed", time)
        }
        // While the disk cannot be read, the check is deferred until the relay's next start.
        toldBlindly = max(toldBlindly, change)
    }

    /// Adds the notices that a commit requires.
    mutating func expectNotices(
        of name: ZoneName,
        from before: Truth,
        to found: Truth,
        by author: Judge.Author?,
        _ time: Int64
    ) {
        guard !name.isDefault, !name.isPublic else { return }
        for (socket, listening) in sockets {
            let isOwner = listening.user == name.owner
            guard found.listeners.contains(Truth.Listener(user: listening.user, scope: isOwner ? 2 : 3)),
                before.listeners.contains(Truth.Listener(user: listening.user, scope: isOwner ? 2 : 3))
            else { continue }
            if let author, author.user == listening.user, author.device == listening.device { continue }
            let isConcerned =
                isOwner
                ? before.zones[name]?.lastChange != found.zones[name]?.lastChange
                : before.visible(name, to: listening.user) != found.visible(name, to: listening.user)
            guard isConcerned else { continue }
            let key = Judge.Due(socket: socket, zone: name)
            due[key] = due[key] ?? time + 2_000
        }
    }
}
