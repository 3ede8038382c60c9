import Foundation
import ZoneMirror

/// Scenes with a list that alice shares with bob, from the invitation to the end.
///
/// The four scenes depend on each other; each reports if the one before has failed.
extension DemoTour {
    private static let title = "Camping"

    func sharedReadOnly() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        var tent = try world.add("Pitch the tent", on: phone)
        var guitar = try world.add("Pack the guitar", on: phone)
        try await waitUntilSent(phone)
        let link = try await phone.share([tent, guitar], title: Self.title, with: "bob", .readOnly)
        try await world.rest()
        try await tablet.accept(link)
        try await wait(for: tent, on: tablet, laptop)
        try await wait(for: guitar, on: tablet, laptop)
        try await waitForRight(.readOnly, on: tablet)
        try await world.rest()
        // Bob has no write permission: the relay refuses, his mirror rolls back, and everything else continues.
        let refusals = world.ledger.refusals
        tent.done = true
        try tablet.save(tent)
        wantedRefusal()
        let ledger = world.ledger
        try await Wait.until("the relay to refuse bob's write") { ledger.refusals > refusals }
        tent.done = false
        try await wait(for: tent, on: tablet)
        try await world.rest()
        let own = try world.add("Look for the compass", on: tablet)
        guitar.title += ", with strings"
        try phone.save(guitar)
        try await wait(for: guitar, on: tablet, laptop)
        try await waitUntilSent(tablet)
        try await world.settle()
        guard tablet.notes().contains(own), !phone.notes().contains(own) else {
            throw CommandFailure(.failed, "bob's own note is not private.")
        }
        return "1 write refused and rolled back; bob's own note and alice's next edit went through"
    }

    func madeReadWrite() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        _ = try await phone.invite("bob", .readWrite)
        try await waitForRight(.readWrite, on: tablet)
        try await world.rest()
        guard var note = tablet.sharedNotes().first else {
            throw CommandFailure(.failed, "bob has no shared note to edit.")
        }
        note.done = true
        let began = ContinuousClock.now
        try tablet.save(note)
        try await wait(for: note, on: phone)
        let delay = (ContinuousClock.now - began).milliseconds
        try await world.rest()
        let added = try world.add("Bring the matches", on: tablet, into: try await tablet.theirShare())
        try await wait(for: added, on: phone, laptop)
        try await world.settle()
        let took = String(format: "%.0f ms", delay)
        return "the permission came by a notice; bob's edit and new note reached alice, the edit after \(took)"
    }

    func participantRemoved() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        let (count, before) = (phone.notes().count, tablet.notes().count)
        try await phone.remove("bob")
        try await waitForNothingShared(on: tablet)
        try await world.settle()
        guard phone.notes().count == count, laptop.notes().count == count, tablet.notes().count == before else {
            throw CommandFailure(.failed, "Notes disappeared that are not part of the list.")
        }
        return "the list was removed from bob's mirror at once; alice has her \(count) notes, bob his own \(before)"
    }

    func sharingStopped() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        try await tablet.accept(try await phone.invite("bob", .readWrite))
        try await waitForRight(.readWrite, on: tablet)
        let added = try world.add("Carry the canoe", on: tablet, into: try await tablet.theirShare())
        try await wait(for: added, on: phone, laptop)
        try await world.rest()
        // Bob is offline when the share ends and learns of it when he is back.
        tablet.goOffline()
        let list = phone.notes()
        try await phone.stopSharing()
        for client in [phone, laptop] {
            try await Wait.until("the notes to be private again on \(client.name)") {
                let holdings = await client.holdings()
                return holdings.lists.isEmpty && holdings.notes == list
            }
        }
        try await world.rest()
        await tablet.goOnline()
        try await waitForNothingShared(on: tablet)
        try await world.settle()
        return "all \(list.count) notes are private to alice again on both devices, including bob's; bob has none"
    }

    private func waitForRight(_ right: DemoRight, on client: DemoClient) async throws {
        try await Wait.until("\(client.name) to receive the permission \(right.words)") {
            await client.lists().contains { !$0.isMine && $0.right == right && !$0.notes.isEmpty }
        }
    }

    private func waitForNothingShared(on client: DemoClient) async throws {
        try await Wait.until("the shared list to disappear from \(client.name)") {
            await client.lists().isEmpty && client.sharedNotes().isEmpty
        }
    }
}
