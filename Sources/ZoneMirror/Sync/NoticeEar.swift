import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Receives the relay's notices for a store, and notifies the other listeners on its connection of this mirror's own
/// changes.
actor NoticeEar {
    private let link: MirrorLink
    private let pool: MirrorPool
    private let conditions: MirrorConditions
    private var listener: UUID?
    private var isStopped = false
    /// The end of a wait that the relay requested for this database.
    private var held: Moment?

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
            notBefore: held,
            time: conditions.time,
            chance: conditions.chance
        )
    }

    /// Subscribes and delivers notices from then on; a new sign-in is reported immediately.
    ///
    /// `held` is a wait requested by the relay that has not ended.
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
