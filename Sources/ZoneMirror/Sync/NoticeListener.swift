import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Receives the relay's notices for a store, and notifies the other listeners on its connection of this mirror's own
/// changes.
actor NoticeListener {
    private let link: MirrorLink
    private let pool: MirrorPool
    private let conditions: MirrorConditions
    private var listener: UUID?
    private var isStopped = false
    /// The end of a wait that the relay requested for this database.
    private var retryNotBefore: Instant?

    init(link: MirrorLink, pool: MirrorPool, conditions: MirrorConditions) {
        self.link = link
        self.pool = pool
        self.conditions = conditions
    }

    nonisolated var subscriptionID: String { link.database.changesSubscriptionID }

    /// Creates the subscription for the notices.
    func subscribe() async {
        await link.database.subscribeToChanges(
            as: subscriptionID,
            notBefore: retryNotBefore,
            time: conditions.time,
            random: conditions.random
        )
    }

    /// Subscribes and delivers notices from then on; a new sign-in is reported immediately.
    ///
    /// `retryNotBefore` is a wait requested by the relay that has not ended.
    func listen(
        retryNotBefore: Instant?,
        _ deliver: @escaping @Sendable (NoticeMultiplexer.Event) async -> Void
    ) async {
        self.retryNotBefore = retryNotBefore
        let database = link.database
        guard let connection = await database.session.connectionOnceConfigured() else { return }
        guard !isStopped, !Task.isCancelled else { return }
        let pool = pool
        let made = await connection.notices.listen(
            to: database.scope,
            over: connection,
            time: conditions.time,
            random: conditions.random,
            databaseToken: {
                (try? pool.read { try State.text($0, .databaseToken) }).flatMap { $0 }.map { SyncToken($0) }
            },
            deliver: deliver,
            after: { await self.subscribe() }
        )
        listener = made
        if isStopped { await connection.notices.stopListening(made) }
    }

    func stop() async {
        isStopped = true
        guard let listener, let multiplexer = try? link.connection().notices else { return }
        await multiplexer.stopListening(listener)
    }

    func notifyOtherListeners(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let multiplexer = try? link.connection().notices else { return }
        await multiplexer.changed(zones, in: link.database.scope, by: listener)
    }
}

/// Receiving notices of changes, and notifying the other listeners on the same connection of this mirror's own.
extension MirrorSync {
    func listenForNotices() async {
        await noticeListener.listen(retryNotBefore: retryNotBefore) { [weak self] in await self?.noticeReceived($0) }
        if isStopped { await noticeListener.stop() }
    }

    /// Subscribes again, because a relay restored from a backup may have lost the subscription and would send no
    /// notices.
    private func subscribeAgain() async {
        await noticeListener.subscribe()
        // Changes made in between were not reported to anyone.
        handle(.noticed(nil))
    }

    func noticeReceived(_ event: NoticeMultiplexer.Event) {
        switch event {
        case .opened(let subscriptions):
            handle(.channelOpened)
            if let subscriptions, !subscriptions.contains(noticeListener.subscriptionID) {
                inBackground { await $0.subscribeAgain() }
            }
        case .lost: handle(.channelLost)
        // This starts the next round, which checks the account first, whatever the last round was waiting for.
        case .accountReplaced: handle(.accountChanged(isUsable: true))
        case .changed(nil, _): handle(.noticed(nil))
        case .changed(let zone?, let token):
            let isKnown = feed.zoneTokens[zone] != nil
            guard feed.noticed(zone, token: token) else { return }
            if isKnown, round?.covers(zone) == true {
                _ = round?.handle(.noticed(zone), state: &feed)
            } else {
                // A new zone is first reported by the database's feed.
                handle(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Notifies the other mirrors and engines on this connection of changes for which the relay sends it no notice.
    func notifyOtherListeners(_ zones: Set<ZoneID>) async { await noticeListener.notifyOtherListeners(zones) }
}
