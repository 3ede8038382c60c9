import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

/// What requests need before they go, and what becomes of them.
extension MirrorSync {
    /// So many changes in a row are sent alone in vain before the way to the relay is taken to be out of order.
    private static let maxSuspects = 3

    /// The relay has said nothing about what was sent: it stays, and the next request is a smaller one.
    ///
    /// A change that goes alone does not hold up the next: once the relay answers for that one, it is this one's own failure.
    func suspect(_ request: [Outgoing], _ error: CKError, _ tally: inout SendTally) {
        guard let item = request.first, request.count == 1 else {
            limits.exceeded(by: request.count)
            tally.error = error
            return
        }
        tally.suspects.append((item, error))
        if tally.suspects.count >= Self.maxSuspects { tally.error = error }
    }

    /// The way is in order: at what failed before, the relay itself fails.
    func settleSuspects(_ tally: inout SendTally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        for (item, error) in suspects {
            _ = try await settle([item], [.failed(error, nil)], item.zone, &tally)
        }
    }

    /// Seals and uploads what some changes need; those for which that cannot be done are settled as failed.
    func ready(
        _ request: [Outgoing],
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> ([Outgoing], [ClientRequest.Write]) {
        var (good, writes, bad): ([Outgoing], [ClientRequest.Write], [(Outgoing, CKError)]) = ([], [], [])
        for item in request {
            do throws(CKError) {
                // Who has not been given the zone's key asks for it once.
                if let noKey = bad.last?.1, noKey.awaitsZoneKey, !item.write.encrypted.isEmpty { throw noKey }
                writes.append(try await tally.link.readied(item, in: zone))
                good.append(item)
            } catch {
                // A disk of ours without space for a file to send is no reason to take the change back.
                guard !error.trouble.isRetriedAutomatically, !error.isOfStorage else {
                    tally.error = error
                    return ([], [])
                }
                bad.append((item, error))
            }
        }
        if good.contains(where: { !$0.large.isEmpty }) { try conditions.crashPoint(.afterUpload) }
        if !bad.isEmpty {
            _ = try await settle(bad.map(\.0), bad.map { .failed($0.1, nil) }, zone, &tally)
        }
        return (good, writes)
    }

    /// Writes down what became of a request, in one transaction.
    ///
    /// `answers`: by the relay's answer to what was sent to the zone last, which is open no more.
    func settle(
        _ request: [Outgoing],
        _ outcomes: [MirrorLink.Answer],
        _ zone: ZoneID,
        _ tally: inout SendTally,
        answers: Bool = false
    ) async throws -> [Outgoing] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let isOwnZone = link.isPrivate && !zone.isDefault
        let result = try await file.pool.write { db in
            var settlement = try Settlement(db, file, now: now, isOwnZone: isOwnZone)
            for (item, outcome) in zip(request, outcomes) { try settlement.take(item, outcome, in: zone) }
            if answers { try SentRequest.remove(db, in: zone) }
            try settlement.end()
            try crash(.insideConfirm)
            return settlement.result
        }
        try crash(.afterConfirm)
        tally.sent += result.sent
        if result.sent > 0 { tally.changedZones.insert(zone) }
        tally.refused += result.refused
        tally.goesOn = tally.goesOn || result.goesOn
        tally.looksFirst = tally.looksFirst || result.looksFirst
        tally.looksAtZones = tally.looksAtZones || result.looksAtZones
        tally.details += await withNumbers(result.details, needed: request.reduce(0) { $0 + $1.size })
        tally.noSpace = tally.noSpace ?? result.noSpace
        if let later = result.later { tally.retryLater(later, in: zone) }
        // Each failed for another's sake, and there is no other: sent again at once it would be no different.
        if result.resend.count == request.count {
            tally.error = tally.error ?? CKError(.batchRequestFailed, "The relay does not say which change it refuses.")
            return []
        }
        return result.resend
    }
}
