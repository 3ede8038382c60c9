import Records
import SyncCore
import ZoneKit

/// How a mirror hears of changes, and tells the others on its line of its own.
extension MirrorSync {
    func listenForNotices() async {
        await ear.listen(heldUntil: heldUntil) { [weak self] in await self?.take($0) }
        if isStopped { await ear.stop() }
    }

    /// A relay that was put back from a copy may have lost the subscription, and no notice would ever come.
    private func subscribeAgain() async {
        await ear.subscribe()
        // What came in between was told to nobody.
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
        // The account is checked before the next round, which this brings about, whatever the one before had to wait for.
        case .accountReplaced: tell(.accountChanged(isUsable: true))
        case .changed(nil, _): tell(.noticed(nil))
        case .changed(let zone?, let token):
            let isKnown = feed.zoneTokens[zone] != nil
            guard feed.noticed(zone, token: token) else { return }
            if isKnown, round?.covers(zone) == true {
                _ = round?.handle(.noticed(zone), state: &feed)
            } else {
                // An unknown zone is first met in the database's feed.
                tell(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Tells the other mirrors and engines on this line what the relay will not.
    func tellOthers(_ zones: Set<ZoneID>) async { await ear.tellOthers(zones) }
}
