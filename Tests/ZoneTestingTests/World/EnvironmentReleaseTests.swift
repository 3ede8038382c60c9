import Foundation
import RelayAPI
import Testing
import ZoneKit
import ZoneMirror

@testable import ZoneTesting

/// A finished test leaves nothing behind.
@Suite struct EnvironmentReleaseTests {
    struct Note: SyncedRecord {
        var id = RecordName()
        var title = ""
    }

    /// The last action of a test.
    enum End: CaseIterable {
        case nothing, aRequest, anEngine, aClosedMirror, aMirror, aMirrorBeforeItsFirstFetch, aCutDevice, aSlowNetwork
        case aCrash, aSignIn, anotherUsersEngine, anotherUsersMirror, anEndedSignIn
    }

    private static func play(_ end: End, on relay: TestRelay) async throws {
        let device = relay.device(of: "alice", named: "phone")
        switch end {
        case .nothing: break
        case .aRequest: _ = try await device.privateDatabase.allRecordZones()
        case .anEngine, .aCutDevice, .aSlowNetwork, .aSignIn, .anEndedSignIn, .anotherUsersEngine:
            let phone = Notebook(on: device)
            phone.write("milk", "Buy milk")
            try await relay.settle()
            if end == .aCutDevice { device.network.cut() }
            if end == .aSignIn { try await device.signIn() }
            if end == .anEndedSignIn { try await device.expireSignIn() }
            if end == .anotherUsersEngine { try await device.signIn(as: "bob") }
            if end == .aSlowNetwork { device.network.latency = .seconds(2) }
            phone.write("bread", "Bake bread")
        case .aClosedMirror, .aMirror, .aMirrorBeforeItsFirstFetch, .aCrash, .anotherUsersMirror:
            let mirror = try await device.mirror(of: MirrorModel(Note.self))
            let context = mirror.newBackgroundContext()
            try context.insert(Note())
            try context.save()
            if end != .aMirrorBeforeItsFirstFetch { try await relay.settle() }
            if end == .aClosedMirror { await mirror.close() }
            if end == .anotherUsersMirror {
                try await device.signIn(as: "bob")
                try await relay.settle()
            }
            if end == .aCrash { device.crash() }
        }
    }

    @Test(.timeLimit(.minutes(15)), arguments: End.allCases)
    func theEnvironmentIsReleased(after end: End) async throws {
        weak var weakRelay: TestRelay?
        weak var weakHub: NoticeHub?
        var folder = URL(filePath: "/")
        do {
            let relay = try TestRelay()
            weakRelay = relay
            weakHub = relay.running?.hub
            folder = relay.folder.url
            try await Self.play(end, on: relay)
        }
        // Cancelled tasks of the engine or mirror may take a moment to end.
        while weakRelay != nil || weakHub != nil, !Task.isCancelled { await Task.yield() }
        #expect(weakRelay == nil && weakHub == nil)
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }
}
