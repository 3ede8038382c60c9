import Foundation
import Records
import SyncCore
import ZoneKit

/// Events of a store's sync, and its progress for callers that wait for it.
extension MirrorSync {
    func note(
        _ kind: MirrorEvent.Kind,
        began: Date? = nil,
        done: Int = 0,
        bytes: Int = 0,
        error: CKError? = nil,
        details: [MirrorEvent.Detail] = []
    ) async {
        let now = conditions.wallClock()
        let event = MirrorEvent(
            id: 0,
            store: file.id,
            kind: kind,
            began: began ?? now,
            ended: now,
            succeeded: error == nil,
            errorCode: error?.code,
            message: error?.advice,
            done: done,
            total: nil,
            bytes: bytes,
            details: details
        )
        let written = try? await file.pool.write { [event] db in
            var event = event
            try EventLog.write(db, &event)
            return event
        }
        board.post(written ?? event)
    }
}

extension MirrorSync {
    // Counts the changes this mirror has seen, in a simulation only.

    func countNews(_ event: SyncSchedule.Event) {
        guard !isPublic, let surroundings = conditions.time.surroundings else { return }
        switch event {
        case .fetchBegan: newsAsked = surroundings.newsCount(ofPublic: false)
        case .fetchFinished(let outcome) where outcome.sawDatabase && outcome.zoneTroubles.isEmpty: newsSeen = newsAsked
        default: break
        }
    }

    func pollBegins() {
        guard let surroundings = conditions.time.surroundings else { return }
        newsAsked = surroundings.newsCount(ofPublic: true)
    }

    func pollEnds() {
        // A type that the relay does not know yet has no changes either.
        newsSeen = newsAsked
    }
}

extension MirrorSync: Settling {
    func unsettled() async -> [String] {
        guard conditions.isAutomatic, !isStopped, let world = conditions.time.surroundings else { return [] }
        let name = "The mirror of the \(link.database.scope.pathName) database"
        if isPublic, newsSeen < world.newsCount(ofPublic: true) {
            return ["\(name) has not polled since the last change."]
        }
        if let unfinished = schedule.unfinished { return ["\(name) \(unfinished)."] }
        if working > 0 { return ["\(name) is syncing."] }
        if spaceWatch != nil { return ["\(name) waits for space in the user's database."] }
        guard !isPublic, !schedule.isChannelOpen, newsSeen < world.newsCount(ofPublic: false) else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
