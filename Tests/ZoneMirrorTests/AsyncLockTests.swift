import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The async lock, and the switch of store files while the stores are syncing.
@Suite(.timeLimit(.minutes(15))) struct AsyncLockTests {
    @Test func aCancelledTaskLeavesTheQueue() async {
        let lock = AsyncLock()
        await lock.enter()
        let (third, second) = (
            Task { await lock.enterUnlessCancelled() }, Task { await lock.enterUnlessCancelled() }
        )
        second.cancel()
        #expect(await second.value == false)
        lock.leave()
        #expect(await third.value)
        // A cancelled task does not acquire a free lock either, and leaves no waiter in the queue.
        lock.leave()
        let fourth = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await lock.enterUnlessCancelled()
        }
        #expect(await fourth.value == false)
        await lock.enter()
        lock.leave()
    }

    /// Both stores notice at the same time that another user has signed in, and report it although one waits for the
    /// other.
    @Test(arguments: 0..<10) func switchingFilesDoesNotDeadlock(_ round: Int) async throws {
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
            // The first request fails because the files belong to another user; then the files are switched.
            try await container.waitUntilUpToDate(timeout: .seconds(120))
        }
        await container.close()
    }

    /// The second store's report arrives during the switch of files, which waits for that store to stop.
    @Test func aLateReportDoesNotBlockTheSwitch() async throws {
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
        // Waits until one of the two stores is being stopped.
        let ids = stores.map { container.store(at: $0.url) }
        let end = ContinuousClock.now + .seconds(120)
        while ids.allSatisfy({ container.sync($0) != nil }), ContinuousClock.now < end { await Task.yield() }
        #expect(ContinuousClock.now < end, "no file was switched")
        answer.open()
        try await container.waitUntilUpToDate(timeout: .seconds(120))
        await container.close()
    }
}
