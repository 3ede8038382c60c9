import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// A store's ear on the relay's notices; it also tells the other mirrors and engines on the line what the relay will not.
actor NoticeEar {
    private let link: MirrorLink
    private let pool: MirrorPool
    private let conditions: MirrorConditions
    private var listener: UUID?
    private var isStopped = false
    /// Until then the relay wants to hear nothing of this database.
    private var held: Moment?

    init(link: MirrorLink, pool: MirrorPool, conditions: MirrorConditions) {
        self.link = link
        self.pool = pool
        self.conditions = conditions
    }

    nonisolated var subscriptionID: String { link.database.changesSubscriptionID }

    /// Makes the subscription that notices follow.
    func subscribe() async {
        await link.database.subscribeToChanges(
            as: subscriptionID,
            notBefore: held,
            time: conditions.time,
            chance: conditions.chance
        )
    }

    /// Subscribes, and hands on what is heard from then on; who signs in meanwhile is heard of at once.
    ///
    /// `held`: a wait that the relay asked for, and that has not ended.
    func listen(heldUntil held: Moment?, _ deliver: @escaping @Sendable (NoticeStation.Event) async -> Void) async {
        self.held = held
        let database = link.database
        guard let connection = await database.session.connectionOnceConfigured() else { return }
        guard !isStopped, !Task.isCancelled else { return }
        let pool = pool
        let made = await connection.notices.listen(
            to: database.scope,
            over: connection,
            time: conditions.time,
            chance: conditions.chance,
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
        guard let listener, let station = try? link.connection().notices else { return }
        await station.stopListening(listener)
    }

    func tellOthers(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let station = try? link.connection().notices else { return }
        await station.changed(zones, in: link.database.scope, by: listener)
    }
}
