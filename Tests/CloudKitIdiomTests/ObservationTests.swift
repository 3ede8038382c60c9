import CloudKit
import Testing

/// A model that programs keep beside their records, in a file that imports only CloudKit.
@Observable private final class Folder {
    var title = ""
}

/// Features that programs take for granted because Apple's CloudKit imports other frameworks.
@Suite(.timeLimit(.minutes(5))) struct ObservationTests {
    @Test func modelsAreObserved() {
        // The block is called on the thread that makes the change, so no synchronization is needed.
        final class Flag: @unchecked Sendable { var isUp = false }
        let (folder, changed) = (Folder(), Flag())
        withObservationTracking {
            _ = folder.title
        } onChange: {
            changed.isUp = true
        }
        folder.title = "Trip"
        #expect(changed.isUp)
    }

    @Test func accountChangesAreAnAsyncSequence() async {
        let center = NotificationCenter()
        var changes = center.notifications(named: .CKAccountChanged).makeAsyncIterator()
        center.post(name: .CKAccountChanged, object: nil, userInfo: ["turn": 1])
        center.post(name: Notification.Name("other"), object: nil)
        center.post(name: .CKAccountChanged, object: nil, userInfo: ["turn": 2])
        #expect(await changes.next()?.userInfo?["turn"] as? Int == 1)
        #expect(await changes.next()?.userInfo?["turn"] as? Int == 2)
    }

    @Test func onlyNotificationsOfTheGivenObjectAreDelivered() async {
        final class Account: Sendable {}
        let (center, mine, other) = (NotificationCenter(), Account(), Account())
        var changes = center.notifications(named: .CKAccountChanged, object: mine).makeAsyncIterator()
        center.post(name: .CKAccountChanged, object: other)
        center.post(name: .CKAccountChanged, object: mine)
        #expect(await changes.next()?.object as? Account === mine)
    }

    @Test func aCancelledWatcherEnds() async {
        let center = NotificationCenter()
        let watcher = Task {
            var count = 0
            for await _ in center.notifications(named: .CKAccountChanged).map({ $0.name }) { count += 1 }
            return count
        }
        watcher.cancel()
        #expect(await watcher.value == 0)
    }
}
