import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The code of the documentation catalogue, unchanged: `SnippetTests` compares the two.
@Suite(.timeLimit(.minutes(15))) struct ArticleCode {
    /// The app that the articles test.
    private final class NotesApp: Sendable {
        let device: TestDevice
        let notebook: Notebook

        init(_ device: TestDevice) {
            self.device = device
            notebook = Notebook(on: device)
        }

        var texts: [String: String] { notebook.texts }
        func write(_ name: String, _ text: String) { notebook.write(name, text) }
    }

    @Test func overview() async throws {
        let relay = try TestRelay()
        let phone = NotesApp(relay.device(of: "alice", named: "phone"))
        let laptop = NotesApp(relay.device(of: "alice", named: "laptop"))

        phone.write("milk", "Buy milk")
        try await relay.settle()
        #expect(laptop.texts == ["milk": "Buy milk"])
    }

    @Test func settlingAndFaults() async throws {
        let relay = try TestRelay()
        let phone = NotesApp(relay.device(of: "alice", named: "phone"))
        let laptop = NotesApp(relay.device(of: "alice", named: "laptop"))
        try await relay.settle()

        laptop.device.network.cut()
        phone.write("milk", "Buy milk")
        laptop.write("bread", "Bake bread")
        try await relay.settle()
        #expect(laptop.texts == ["bread": "Bake bread"])

        laptop.device.network.heal()
        try await relay.settle()
        #expect(laptop.texts == ["milk": "Buy milk", "bread": "Bake bread"])

        phone.device.network.fail(.losesAnswer)
        phone.device.network.fail(request: 2, of: "records/modify", by: .throttled(retryAfter: .seconds(30)))
        phone.write("milk", "Buy oat milk")
        try await relay.settle()
        #expect(laptop.texts["milk"] == "Buy oat milk")

        relay.limits.itemsPerRequest = 10  // larger requests are refused
        relay.fillQuota()  // writes that need space fail
        relay.emptyQuota()
        try relay.expireChangeTokens()  // every client fetches everything again
        try await relay.settle()
    }

    @Test func settleReportsPendingWork() async throws {
        let relay = try TestRelay(Self.onDisk)
        let phone = NotesApp(relay.device(of: "alice", named: "phone"))
        try await relay.settle()

        relay.stop()
        phone.write("eggs", "Boil eggs")
        do {
            try await relay.settle()
        } catch let error as NotSettled {
            print(error)  // - alice-phone: The engine of the private database has changes to send.
        }
        try relay.start()
        try await relay.settle()
        #expect(phone.texts == ["eggs": "Boil eggs"])
    }

    private static var onDisk: TestRelay.Options {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        return options
    }

    @Test func signInsAndClocks() async throws {
        let relay = try TestRelay()
        let phone = NotesApp(relay.device(of: "alice", named: "phone"))
        let laptop = NotesApp(relay.device(of: "alice", named: "laptop"))
        try await relay.settle()

        try await phone.device.expireSignIn()
        await #expect(throws: CKError.self) { try await phone.device.privateDatabase.allRecordZones() }
        try await phone.device.signIn()
        try await relay.settle()

        phone.device.clockError = .seconds(-86_400)  // yesterday
        relay.clockError = .seconds(3_600)
        laptop.write("milk", "Buy milk")
        try await relay.settle()
        #expect(laptop.texts == ["milk": "Buy milk"])
        #expect(try await phone.device.privateDatabase.allRecordZones().count == 2)
    }

    @Test func meanwhile() async throws {
        let relay = try TestRelay()
        let (alice, bob) = (relay.device(of: "alice"), relay.device(of: "bob"))
        let share = CKShare(recordZoneID: try await alice.privateDatabase.save(CKRecordZone(zoneName: "Ours")).zoneID)

        bob.network.fail(
            request: 2,
            of: "records/modify",
            by: .meanwhile {
                share.publicPermission = .none
                _ = try? await alice.privateDatabase.save(share)
            }
        )
        for _ in 0..<2 { try await bob.privateDatabase.save(CKRecord(recordType: "Note")) }
        #expect(share.recordChangeTag != nil)
    }

    @Test func crash() async throws {
        let relay = try TestRelay()
        let model = SettleTests.model
        let laptop = try await relay.device(of: "alice", named: "laptop").mirror(of: model)
        let context = laptop.newBackgroundContext()
        try context.insert(SettleTests.Task(title: "Buy milk"))
        try context.save()
        try await relay.settle()

        var tablet = relay.device(of: "alice", named: "tablet")
        var notes = try await tablet.mirror(of: model)
        tablet.crash(at: .mirror(.insideImport))
        try await relay.settle()

        tablet = try tablet.restarted()
        notes = try await tablet.mirror(of: model)
        try await relay.settle()
        #expect(try notes.newBackgroundContext().fetch(SettleTests.Task.self).map(\.title) == ["Buy milk"])
        await notes.close()
        await laptop.close()
    }
}
