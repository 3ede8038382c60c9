import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Changes that cannot be sent, and zones that cannot be fetched, at the moment: they cause no busy loop and are not
/// lost.
@Suite(.timeLimit(.minutes(15))) struct WaitingTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func conditions(_ device: TestDevice) -> MirrorConditions {
        MirrorConditions(device.connection.conditions ?? SyncConditions())
    }

    /// The tags of an older model are unsent, and the new model lacks the entity.
    @Test func changesOfARemovedEntityWaitForItsReturn() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let old = try await Mirrored(device, folder: folder)
        let context = old.context()
        try context.insert(Tag(word: "red"))
        try context.save()
        await old.container.close()
        let new = try await Mirrored(
            device,
            model: MirrorModel(Post.self),
            folder: folder,
            isAutomatic: true,
            conditions: conditions(device)
        )
        try await relay.settle()
        let file = try #require(new.container.stores.file(new.store))
        #expect(try await file.pool.read { try OutboxRow.count($0, sendableOnly: true) } == 0)
        #expect(try await new.container.pendingExportCount(new.store) == 1)
        // An explicit send throws because some changes were not sent.
        let error = await #expect(throws: MirrorError.self) { try await new.container.sendChanges() }
        #expect((error?.underlying as? CKError)?.code == .incompatibleVersion)
        #expect(error?.explanation.contains("no longer has Tag") == true)
        await new.container.close()
        let again = try await Mirrored(device, folder: folder)
        try await again.container.sendChanges()
        #expect(try await again.container.pendingExportCount(again.store) == 0)
        await again.container.close()
    }

    private func block(_ mirror: Mirrored) async throws {
        let file = try #require(mirror.container.stores.file(mirror.store))
        try await file.pool.write { try $0.execute(sql: "UPDATE mirror_outbox SET held = 'waiting'") }
    }

    /// An explicit send retries blocked changes, whatever the reason.
    @Test func anExplicitSendRetriesBlockedChanges() async throws {
        let mirror = try await Mirrored(relay.device(of: "alice"))
        try mirror.save(Note(id: "a", title: "1"))
        try await block(mirror)
        try await mirror.container.sendChanges()
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        await mirror.container.close()
    }

    @Test func blockedChangesAreRetriedAtLaunch() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let before = try await Mirrored(device, folder: folder)
        try before.save(Note(id: "a", title: "1"))
        try await block(before)
        await before.container.close()
        let after = try await Mirrored(device, folder: folder, isAutomatic: true, conditions: conditions(device))
        try await relay.settle()
        #expect(try await after.container.pendingExportCount(after.store) == 0)
        await after.container.close()
    }

    /// Without any saves or fetched changes meanwhile.
    @Test func blockedChangesAreRetriedAutomatically() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device, isAutomatic: true, conditions: conditions(device))
        try await relay.settle()
        device.network.cut()
        try mirror.save(Note(id: "a", title: "1"))
        try await block(mirror)
        mirror.container.committed(mirror.store)
        device.network.heal()
        await relay.advance(by: .seconds(3_600))
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        await mirror.container.close()
    }

    /// A fetch that skips a busy zone is incomplete.
    @Test func aFetchWithoutABusyZoneDoesNotCountAsAnImport() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let sync = try #require(laptop.container.syncs.first)
        let home = try #require(laptop.container.stores.file(laptop.store)?.homeZone)
        await sync.fetchOnSchedule(asksDatabase: true, backingOff: [home])
        #expect(try laptop.titles.isEmpty)
        #expect(try await !laptop.container.hasCompletedInitialImport(laptop.store))
        #expect(try await laptop.container.lastSuccessfulImport(laptop.store) == nil)
        // Only the skipped zone is left to fetch.
        await sync.fetchOnSchedule(asksDatabase: false, backingOff: [])
        #expect(try laptop.titles == ["a": "1"])
        #expect(try await laptop.container.hasCompletedInitialImport(laptop.store))
    }

    @Test func aReadOnlyParticipantCannotAddObjects() async throws {
        let alice = try await NotesApp(relay.device(of: "alice@example.org", named: "phone"))
        let bob = try await NotesApp(relay.device(of: "bob@example.org", named: "tablet"))
        let context = alice.context()
        try context.insert(SharedNote(id: "trip", title: "Trip"))
        try context.save()
        try await alice.sync()
        let trip = try #require(try alice.note)
        let (_, share, _) = try await alice.container.share([try alice.id(trip)])
        share.addParticipant(emailAddress: "bob@example.org", permission: .readOnly)
        let saved = try await alice.container.persistUpdatedShare(share, in: alice.mine)
        let url = try #require(saved.url)
        try await bob.container.acceptShareInvitations(from: [url], into: bob.others)
        let error = #expect(throws: MirrorError.self) { try bob.addMemo("mine") }
        guard case .permissionFailure(let refused)? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(refused.map(\.entity) == ["Memo"])
        #expect(try bob.memos.isEmpty)
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
    }
}
