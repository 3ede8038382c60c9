import Foundation
import ZoneKit
import ZoneMirror

/// Sharing actions of a client; they wait for the relay.
extension DemoClient {
    /// Describes a share for the journal, like `"Camping" with bob, read only: 1 note`.
    static func words(_ title: String, _ user: String, _ right: DemoRight, _ notes: Int) -> String {
        "\"\(title)\" with \(user), \(right.words): \(notes.of("note"))"
    }

    /// Shares notes with a user, under a title; returns the link to hand out.
    func share(_ notes: [DemoNote], title: String, with user: String, _ right: DemoRight) async throws -> URL {
        let mirror = try reachable()
        let person = try recordName(of: user)
        place.journal.note(name, "share", Self.words(title, user, right, notes.count))
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        return try await waiting("to share \"\(title)\"") {
            let share = try await mirror.container.share(objects, title: title).share
            share.addParticipant(user: person, permission: right.permission)
            try await mirror.container.persistUpdatedShare(share, in: mirror.own)
            guard let url = share.url else {
                throw CommandFailure(.failed, "The relay returned no link for the share.")
            }
            return url
        }
    }

    /// Adds notes to an existing share.
    func share(_ notes: [DemoNote], into share: CKShare) async throws {
        let mirror = try reachable()
        place.journal.note(name, "share", "\(notes.count) more into \"\(share.title ?? "")\"")
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        try await waiting("to share more notes") { _ = try await mirror.container.share(objects, to: share) }
    }

    /// Accepts an invitation link.
    func accept(_ link: URL) async throws {
        let mirror = try reachable()
        place.journal.note(name, "accept", "the link")
        try await waiting("to accept the link") {
            try await mirror.container.acceptShareInvitations(from: [link], into: mirror.others)
        }
    }

    /// Invites a user again, or changes their permission.
    func invite(_ user: String, _ right: DemoRight) async throws -> URL {
        let person = try recordName(of: user)
        place.journal.note(name, "invite", "\(user), \(right.words)")
        let share = try await change("to change the permission") { share in
            if let known = share.participants.first(where: { $0.isOf(person) }) {
                share.setPermission(right.permission, for: known)
            } else {
                share.addParticipant(user: person, permission: right.permission)
            }
        }
        guard let url = share.url else { throw CommandFailure(.failed, "The share has no link.") }
        return url
    }

    /// Removes a participant from the shared list.
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

    /// Ends the share; the notes become private again.
    func stopSharing() async throws {
        let mirror = try reachable()
        let share = try await ownShare()
        place.journal.note(name, "stop", "sharing \"\(share.title ?? "")\"")
        try await waiting("to stop sharing") { try await mirror.container.stopSharing(share, in: mirror.own) }
    }

    /// Leaves another user's list.
    func leave() async throws {
        let mirror = try reachable()
        let share = try await theirShare()
        place.journal.note(name, "leave", "\"\(share.title ?? "")\"")
        try await waiting("to leave the list") { try await mirror.container.leaveShare(share, in: mirror.others) }
    }

    func ownShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.own).first else {
            throw CommandFailure(.failed, "\(user) shares nothing. Press s to share a note.")
        }
        return share
    }

    func theirShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.others).first else {
            throw CommandFailure(.failed, "No list is shared with \(user).")
        }
        return share
    }

    private func recordName(of user: String) throws -> String {
        guard let name = place.people.recordName(of: user) else {
            throw CommandFailure(.failed, "The record name of \(user) is not known yet. Retry in a moment.")
        }
        return name
    }

    /// Returns the mirror if the client is connected, which sharing requires.
    private func reachable() throws -> DemoMirror {
        guard isOnline else {
            throw CommandFailure(.failed, "\(name) is offline, but sharing needs the relay. Press o first.")
        }
        guard isLive() else { throw CommandFailure(.failed, "\(name) has no connection, but sharing needs the relay.") }
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
