import NotesModel
import Observation
import Testing
import ZoneMirror
import ZoneTesting

@Suite struct LiveObjectsTests {
    @MainActor @Test func liveObjectsFollowTheNotes() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice", named: "phone")
        let notes = try await Notes(phone.container, folder: phone.folder())

        let request = FetchRequest(Note.self, \.done == false, sortedBy: .ascending(\.title))
        let live = LiveObjects(request, in: notes.container.viewContext)
        try notes.add("Buy milk")
        while live.objects.isEmpty { await change(of: live) }
        #expect(live.objects.map(\.title) == ["Buy milk"])

        for note in live.objects { try notes.delete(note) }
        while !live.objects.isEmpty { await change(of: live) }
        await notes.close()
    }

    /// Returns when the objects are about to change.
    @MainActor private func change(of live: LiveObjects<Note>) async {
        await withCheckedContinuation { done in
            withObservationTracking {
                _ = live.objects
            } onChange: {
                done.resume()
            }
        }
    }
}
