import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

/// Waiting in line, and files that are exchanged while their stores are at work.
@Suite(.timeLimit(.minutes(15))) struct TurnstileTests {
    @Test func whoIsCancelledLeavesTheLine() async {
        let turnstile = Turnstile()
        await turnstile.enter()
        let (third, second) = (
            Task { await turnstile.enterUnlessCancelled() }, Task { await turnstile.enterUnlessCancelled() }
        )
        second.cancel()
        #expect(await second.value == false)
        turnstile.leave()
        #expect(await third.value)
        // A cancelled task does not enter what is open either; nobody is left in line.
        turnstile.leave()
        let fourth = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await turnstile.enterUnlessCancelled()
        }
        #expect(await fourth.value == false)
        await turnstile.enter()
        turnstile.leave()
    }

    /// Both stores find out at once that another user has signed in: the one that is waited for reports it, too.
    @Test(arguments: 0..<10) func anExchangeOfFilesWaitsForNobodyWhoWaitsForIt(_ round: Int) async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let stores = [CKDatabase.Scope.private, .shared].map { scope in
            var cloud = CloudOptions(container: device.container)
            cloud.scope = scope
            return StoreDescription(url: folder.url.appendingPathComponent("\(scope).sqlite"), cloud: cloud)
        }
        let container = MirroredContainer(model: notesModel, stores: stores, conditions: MirrorConditions())
        try await container.loadStores()
        try await container.waitUntilUpToDate(timeout: .seconds(120))
        for user in ["bob", "carol", "alice"] {
            device.connection.credentials.replace(webAuthToken: "dev-\(user)")
            // Whoever asks first is told that the files are somebody else's; then they are exchanged.
            try await container.waitUntilUpToDate(timeout: .seconds(120))
        }
        await container.close()
    }

    /// The second store's report comes when files are being exchanged already, and the exchange waits for that store to stop.
    @Test func aLateReportDoesNotHoldTheExchange() async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let stores = [CKDatabase.Scope.private, .shared].map { scope in
            let cloud = CloudOptions(container: device.container, scope: scope)
            return StoreDescription(url: folder.url.appendingPathComponent("\(scope).sqlite"), cloud: cloud)
        }
        let container = MirroredContainer(model: notesModel, stores: stores, conditions: MirrorConditions())
        try await container.loadStores()
        try await container.waitUntilUpToDate(timeout: .seconds(120))
        let answer = Gate()
        device.network.fail(request: 2, of: "users/caller", by: .beforeAnswer { await answer.wait() })
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        for sync in container.syncs { await sync.noticed() }
        // Until one of the two has been taken away to be stopped.
        let ids = stores.map { container.store(at: $0.url) }
        let end = ContinuousClock.now + .seconds(120)
        while ids.allSatisfy({ container.sync($0) != nil }), ContinuousClock.now < end { await Task.yield() }
        #expect(ContinuousClock.now < end, "nobody exchanged any file")
        answer.open()
        try await container.waitUntilUpToDate(timeout: .seconds(120))
        await container.close()
    }
}
