import Foundation
import ZoneKit
import ZoneMirror

/// The keys for sharing.
extension DemoStage {
    func pressToShare(_ key: Character, _ client: DemoClient) async throws {
        switch key {
        case "s": try await share(from: client)
        case "w": try await toggleRight(of: client)
        case "u": try await uninvite(from: client)
        case "l": try await leave(client)
        case "A": try await addToShared(client)
        default: break
        }
    }

    private func partner(of client: DemoClient) -> String { client.user == "alice" ? "bob" : "alice" }

    /// Returns a connected device of a user, to accept a link.
    private func device(of user: String) throws -> DemoClient {
        guard let device = world.clients.first(where: { $0.user == user && $0.isOnline && $0.isLive() }) else {
            throw CommandFailure(.failed, "No device of \(user) is online to accept the link.")
        }
        return device
    }

    /// Shares the selected note read-only; further notes go into the same list.
    private func share(from client: DemoClient) async throws {
        let (note, partner) = (try await chosen(on: client), partner(of: client))
        guard client.notes().contains(where: { $0.name == note.name }) else {
            throw CommandFailure(.failed, "\"\(note.title)\" belongs to \(partner), who can share it.")
        }
        let lists = await client.lists()
        guard !lists.contains(where: { $0.isMine && $0.notes.contains { $0.name == note.name } }) else {
            throw CommandFailure(.failed, "\"\(note.title)\" is already shared. Select another with ↑ and ↓.")
        }
        if let share = try? await client.ownShare() {
            try await client.share([note], into: share)
            if share.participants.count < 2 { try await device(of: partner).accept(client.invite(partner, .readOnly)) }
        } else {
            let other = try device(of: partner)
            try await other.accept(client.share([note], title: "From \(client.user)", with: partner, .readOnly))
        }
        choose(note, on: client)
    }

    private func toggleRight(of client: DemoClient) async throws {
        let list = try await ownList(client)
        let partner = partner(of: client)
        guard !list.people.isEmpty else {
            return try await device(of: partner).accept(client.invite(partner, .readWrite))
        }
        _ = try await client.invite(partner, list.right == .readWrite ? .readOnly : .readWrite)
    }

    private func uninvite(from client: DemoClient) async throws {
        _ = try await ownList(client)
        try await client.remove(partner(of: client))
    }

    /// Stops sharing as the owner, or leaves as a participant.
    private func leave(_ client: DemoClient) async throws {
        let lists = await client.lists()
        if lists.contains(where: \.isMine) { return try await client.stopSharing() }
        guard !lists.isEmpty else {
            throw CommandFailure(.failed, "\(client.user) has no shared list. Press s to share a note.")
        }
        try await client.leave()
    }

    private func addToShared(_ client: DemoClient) async throws {
        let own = try? await client.ownShare()
        let share = if let own { own } else { try await client.theirShare() }
        choose(try world.add(nextTitle(), on: client, into: share), on: client)
    }

    private func ownList(_ client: DemoClient) async throws -> DemoList {
        guard let list = await client.lists().first(where: \.isMine) else {
            throw CommandFailure(.failed, "\(client.user) owns no shared list. Press s to share a note.")
        }
        return list
    }
}
