import Foundation
import ZoneKit
import ZoneMirror

/// Sharing, as the people at the clients do it: these need the relay, and wait for it.
extension DemoClient {
    /// What the journal says of a share: `"Camping" with bob, read only: 1 note`.
    static func words(_ title: String, _ user: String, _ right: DemoRight, _ notes: Int) -> String {
        "\"\(title)\" with \(user), \(right.words): \(notes.of("note"))"
    }

    /// Shares notes with somebody, under a title; returns the link to hand out.
    func share(_ notes: [DemoNote], title: String, with user: String, _ right: DemoRight) async throws -> URL {
        let mirror = try reachable()
        let person = try recordName(of: user)
        place.journal.note(name, "share", Self.words(title, user, right, notes.count))
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        return try await waiting("to share \"\(title)\"") {
            let share = try await mirror.container.share(objects, title: title).share
            share.addParticipant(user: person, permission: right.permission)
            try await mirror.container.persistUpdatedShare(share, in: mirror.own)
            guard let url = share.url else { throw CommandFailure(.failed, "The relay gave the share no link.") }
            return url
        }
    }

    /// Moves more notes into the list that is shared already.
    func share(_ notes: [DemoNote], into share: CKShare) async throws {
        let mirror = try reachable()
        place.journal.note(name, "share", "\(notes.count) more into \"\(share.title ?? "")\"")
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        try await waiting("to share more notes") { _ = try await mirror.container.share(objects, to: share) }
    }

    /// Opens a link that somebody handed out.
    func accept(_ link: URL) async throws {
        let mirror = try reachable()
        place.journal.note(name, "accept", "the link")
        try await waiting("to accept the link") {
            try await mirror.container.acceptShareInvitations(from: [link], into: mirror.others)
        }
    }

    /// Lets somebody in again, or changes what they may do.
    func invite(_ user: String, _ right: DemoRight) async throws -> URL {
        let person = try recordName(of: user)
        place.journal.note(name, "invite", "\(user), \(right.words)")
        let share = try await change("to change the rights") { share in
            if let known = share.participants.first(where: { $0.isOf(person) }) {
                share.setPermission(right.permission, for: known)
            } else {
                share.addParticipant(user: person, permission: right.permission)
            }
        }
        guard let url = share.url else { throw CommandFailure(.failed, "The share has no link.") }
        return url
    }

    /// Takes somebody out of the shared list.
    func remove(_ user: String) async throws {
        let person = try recordName(of: user)
        place.journal.note(name, "remove", "\(user) from the shared list")
        _ = try await change("to remove \(user)") { share in
            if let known = share.participants.first(where: { $0.isOf(person) }) { share.removeParticipant(known) }
        }
    }

    private func change(
        _ what: String,
        _ change: @escaping @Sendable (CKShare) -> Void
    ) async throws -> CKShare {
        let mirror = try reachable()
        let share = try await ownShare()
        change(share)
        return try await waiting(what) { try await mirror.container.persistUpdatedShare(share, in: mirror.own) }
    }

    /// Ends the share: the notes go back among the user's own.
    func stopSharing() async throws {
        let mirror = try reachable()
        let share = try await ownShare()
        place.journal.note(name, "stop", "sharing \"\(share.title ?? "")\"")
        try await waiting("to stop sharing") { try await mirror.container.stopSharing(share, in: mirror.own) }
    }

    /// Leaves somebody else's list.
    func leave() async throws {
        let mirror = try reachable()
        let share = try await theirShare()
        place.journal.note(name, "leave", "\"\(share.title ?? "")\"")
        try await waiting("to leave the list") { try await mirror.container.leaveShare(share, in: mirror.others) }
    }

    func ownShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.own).first else {
            throw CommandFailure(.failed, "\(user) shares nothing; s shares a note.")
        }
        return share
    }

    func theirShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.others).first else {
            throw CommandFailure(.failed, "Nobody shares anything with \(user).")
        }
        return share
    }

    private func recordName(of user: String) throws -> String {
        guard let name = place.people.recordName(of: user) else {
            throw CommandFailure(.failed, "The relay has not said yet who \(user) is.")
        }
        return name
    }

    /// Sharing is agreed upon with the relay, so it needs one.
    private func reachable() throws -> DemoMirror {
        guard isOnline else {
            throw CommandFailure(.failed, "\(name) is offline, and sharing needs the relay: press o first.")
        }
        guard isLive() else { throw CommandFailure(.failed, "\(name) has no connection, and sharing needs the relay.") }
        return try mirror
    }

    private func waiting<Result: Sendable>(
        _ what: String,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result { try await Wait.upTo(.seconds(120), "\(name) \(what)", body) }
}

extension CKShare.Participant {
    fileprivate func isOf(_ recordName: String) -> Bool { userIdentity.userRecordID?.recordName == recordName }
}
