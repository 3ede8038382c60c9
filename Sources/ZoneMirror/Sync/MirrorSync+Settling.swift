import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

/// Preparing requests and applying their results.
extension MirrorSync {
    /// The number of consecutive failures of single changes after which the connection is considered broken.
    private static let maxSuspects = 3

    /// Handles a request without a response: its changes stay, and the next request is smaller.
    ///
    /// A change that was sent alone does not block the next one: if the relay answers that one, the failure is the
    /// change's own.
    func suspect(_ request: [Outgoing], _ error: CKError, _ tally: inout SendTally) {
        guard let item = request.first, request.count == 1 else {
            limits.exceeded(by: request.count)
            tally.error = error
            return
        }
        tally.suspects.append((item, error))
        if tally.suspects.count >= Self.maxSuspects { tally.error = error }
    }

    /// Settles the failed changes as refused by the relay, since a later response shows that the connection works.
    func settleSuspects(_ tally: inout SendTally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        for (item, error) in suspects {
            _ = try await settle([item], [.failed(error, nil)], item.zone, &tally)
        }
    }

    /// Encrypts and uploads what the changes need; those for which that fails are settled as failed.
    func ready(
        _ request: [Outgoing],
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> ([Outgoing], [ClientRequest.Write]) {
        var (good, writes, bad): ([Outgoing], [ClientRequest.Write], [(Outgoing, CKError)]) = ([], [], [])
        for item in request {
            do throws(CKError) {
                // A missing zone key is requested once, not for each change.
                if let noKey = bad.last?.1, noKey.awaitsZoneKey, !item.write.encrypted.isEmpty { throw noKey }
                writes.append(try await tally.link.readied(item, in: zone))
                good.append(item)
            } catch {
                // A full local disk is no reason to undo the change.
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

    /// Applies the results of a request in one transaction.
    ///
    /// `answers` means that they come from the relay's response to the zone's stored request, which is complete then.
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
        // Each change failed because of another one, but no other is left: sending them again would change nothing.
        if result.resend.count == request.count {
            tally.error =
                tally.error ?? CKError(.batchRequestFailed, "The relay did not report which change it refused.")
            return []
        }
        return result.resend
    }
}
