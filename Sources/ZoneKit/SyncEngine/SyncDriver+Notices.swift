import Records
import SyncCore

/// How the engine hears of changes, and tells the others on its line of its own.
extension SyncDriver {
    func listenForNotices() async {
        guard let connection = await database.session.connectionOnceConfigured(), !isStopped else { return }
        let (database, state, conditions, subscriptionID) = (database, state, conditions, subscriptionID)
        listening = await connection.notices.listen(
            to: database.scope,
            over: connection,
            time: conditions.time,
            chance: conditions.chance,
            databaseToken: { state.read(\.feed.databaseToken) },
            deliver: { [weak self] in await self?.take($0) },
            after: {
                await database.subscribeToChanges(as: subscriptionID, time: conditions.time, chance: conditions.chance)
            }
        )
        if isStopped, let listening { await connection.notices.stopListening(listening) }
    }

    /// The relay does not know the subscription, and without it no notice would ever come.
    ///
    /// Another user's it never had; and one that was put back from a copy may have lost it.
    private func subscribeAgain() async {
        await database.subscribeToChanges(as: subscriptionID, time: conditions.time, chance: conditions.chance)
        // What came in between was told to nobody.
        tell(.noticed(nil))
    }

    private func take(_ event: NoticeStation.Event) {
        switch event {
        case .opened(let subscriptions):
            tell(.channelOpened)
            let isSubscribed = subscriptions?.contains(subscriptionID) ?? true
            if !isSubscribed { inBackground { await $0.subscribeAgain() } }
        case .lost: tell(.channelLost)
        case .accountReplaced: inBackground { await $0.followAccount() }
        case .changed(nil, _): tell(.noticed(nil))
        case .changed(let zone?, let token):
            let (isNews, isKnown) = state.update { contents in
                (contents.feed.noticed(zone, token: token), contents.feed.zoneTokens[zone] != nil)
            }
            guard isNews else { return }
            if isKnown, let round, round.covers(zone) {
                _ = state.update { self.round?.handle(.noticed(zone), state: &$0.feed) }
            } else {
                // An unknown zone is first met in the database's feed, which names it to the application.
                tell(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Tells the other engines on this line what the relay will not.
    func tellOthers(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let station = try? database.session.connection().notices else { return }
        await station.changed(zones, in: database.scope, by: listening)
    }
}
