import Records
import SyncCore

/// Receiving notices, and reporting changes to the other engines on the same connection.
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

    /// Creates the subscription again, because the relay does not know it and would send no notices.
    ///
    /// This happens after a change of the user, and after the relay was restored from a backup.
    private func subscribeAgain() async {
        await database.subscribeToChanges(as: subscriptionID, time: conditions.time, chance: conditions.chance)
        // Changes in the meantime were not reported.
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
                // An unknown zone must first appear in the database's feed, which reports it to the app.
                tell(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Reports changes of this engine to the other engines on the same connection, because the relay does not.
    func tellOthers(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let station = try? database.session.connection().notices else { return }
        await station.changed(zones, in: database.scope, by: listening)
    }
}
