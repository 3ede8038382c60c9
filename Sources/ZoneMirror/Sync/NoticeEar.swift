import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// A store's ear on the relay's notices; it also tells the other mirrors and engines on the line what the relay will not.
actor NoticeEar {
    private let link: MirrorLink
    private let pool: MirrorPool
    private let conditions: MirrorConditions
    private var listener: UUID?
    private var isStopped = false

    init(link: MirrorLink, pool: MirrorPool, conditions: MirrorConditions) {
        self.link = link
        self.pool = pool
        self.conditions = conditions
    }

    /// Subscribes, and hands on what is heard from then on.
    func listen(_ deliver: @escaping @Sendable (NoticeStation.Event) async -> Void) async {
        guard let connection = try? link.connection() else { return }
        await subscribe()
        guard !isStopped, !Task.isCancelled else { return }
        let pool = pool
        let made = await connection.notices.listen(
            to: link.database.scope,
            over: connection,
            time: conditions.time,
            chance: conditions.chance,
            databaseToken: {
                (try? pool.read { try State.text($0, .databaseToken) }).flatMap { $0 }.map { SyncToken($0) }
            },
            deliver: deliver
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

    /// Makes the subscription that the notices follow; tried until the relay has an opinion.
    private func subscribe() async {
        var (backoff, chance) = (Backoff.requests, conditions.chance)
        let name = "\(link.database.scope.pathName)-changes"
        let body = ClientRequest.modify(creating: [Subscription(id: name, kind: .database)], deleting: [])
        while !Task.isCancelled, !isStopped {
            do throws(CKError) {
                _ = try await link.database.call("subscriptions/modify", body, isWrite: true)
                return
            } catch {
                let trouble = error.trouble
                guard trouble.isRetriedAutomatically else { return }
                let wait = trouble.retryAfter ?? backoff.failed(using: &chance)
                guard (try? await conditions.time.sleep(conditions.time.now() + wait)) != nil else { return }
            }
        }
    }
}
