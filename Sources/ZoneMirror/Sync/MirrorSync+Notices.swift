import Records
import SyncCore
import ZoneKit

/// Receiving notices of changes, and notifying the other listeners on the same connection of this mirror's own.
extension MirrorSync {
    func listenForNotices() async {
        await ear.listen(heldUntil: heldUntil) { [weak self] in await self?.take($0) }
        if isStopped { await ear.stop() }
    }

    /// Subscribes again, because a relay restored from a backup may have lost the subscription and would send no
    /// notices.
    private func subscribeAgain() async {
        await ear.subscribe()
        // Changes made in between were not reported to anyone.
        tell(.noticed(nil))
    }

    func take(_ event: NoticeStation.Event) {
        switch event {
        case .opened(let subscriptions):
            tell(.channelOpened)
            if let subscriptions, !subscriptions.contains(ear.subscriptionID) {
                inBackground { await $0.subscribeAgain() }
            }
        case .lost: tell(.channelLost)
        // This starts the next round, which checks the account first, whatever the last round was waiting for.
        case .accountReplaced: tell(.accountChanged(isUsable: true))
        case .changed(nil, _): tell(.noticed(nil))
        case .changed(let zone?, let token):
            let isKnown = feed.zoneTokens[zone] != nil
            guard feed.noticed(zone, token: token) else { return }
            if isKnown, round?.covers(zone) == true {
                _ = round?.handle(.noticed(zone), state: &feed)
            } else {
                // A new zone is first reported by the database's feed.
                tell(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Notifies the other mirrors and engines on this connection of changes for which the relay sends it no notice.
    func tellOthers(_ zones: Set<ZoneID>) async { await ear.tellOthers(zones) }
}
