import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

/// Requests that change something, and those of them whose answers were lost.
extension MirrorSync {
    /// Sends a request that is kept, and writes down what became of it; returns what is to be sent again at once.
    func exchange(_ sent: SentRequest, in zone: ZoneID, _ tally: inout SendTally) async throws -> [Outgoing] {
        let request = sent.items
        sends[zone, default: 0] += 1
        tally.bytes += request.reduce(0) { $0 + $1.size }
        var answers: [MirrorLink.Answer]
        do throws(CKError) {
            answers = try await tally.link.modify(sent.body, count: request.count, in: zone)
            limits.accepted()
            feed.wrote(zone)
        } catch {
            return try await failed(sent, error, in: zone, &tally)
        }
        try conditions.crashPoint(.afterSend)
        try await settleSuspects(&tally)
        try await open(&answers, to: sent.writes, in: zone)
        for index in answers.indices {
            guard case .failed(let error, let server) = answers[index] else { continue }
            if error.code == .invalidArguments { link.forgetFiles(of: sent.writes[index]) }
            guard var server = server.map({ [$0] }) else { continue }
            try await makeReadable(&server, in: zone)
            answers[index] = .failed(error, server.first)
        }
        return try await settle(request, answers, zone, &tally, answers: true)
    }

    /// What was saved comes back whole: with values that only a newer program knows, and that are sealed.
    private func open(
        _ answers: inout [MirrorLink.Answer],
        to writes: [ClientRequest.Write],
        in zone: ZoneID
    ) async throws(CKError) {
        for (index, write) in zip(answers.indices, writes) {
            guard case .saved(let record) = answers[index], !record.encryptedFields.isSubset(of: write.encrypted)
            else { continue }
            var records = [record]
            try await link.open(&records, in: zone)
            answers[index] = .saved(records[0])
        }
    }

    /// The relay has said nothing about a request's changes one by one.
    private func failed(
        _ sent: SentRequest,
        _ error: CKError,
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> [Outgoing] {
        let request = sent.items
        var kept = sent
        if kept.staysOpen(after: error) {
            try await file.pool.write { [kept] in try kept.keep($0, in: zone) }
            tally.retryLater(error, in: zone)
            return []
        }
        try await file.pool.write { try SentRequest.remove($0, in: zone) }
        if error.code == .limitExceeded, request.count > 1 {
            limits.exceeded(by: request.count)
            return request
        }
        if error.trouble.isRetriedAutomatically {
            tally.retryLater(error, in: zone)
            return []
        }
        if error.isOfWay {
            suspect(request, error, &tally)
            return []
        }
        // The request as a whole: each of its changes is told the same.
        return try await settle(request, request.map { _ in .failed(error, nil) }, zone, &tally)
    }

    /// Sends again, as it was, what the relay may have carried out without its answer having come.
    ///
    /// What was changed since builds on that: it goes only when it is known what became of it.
    func askAgain(_ tally: inout SendTally) async throws {
        for zone in try await file.pool.read({ try SentRequest.zones($0) }) {
            guard tally.error == nil else { return }
            guard !tally.heldZones.contains(zone) else { continue }
            let turnstile = exchange(zone)
            await turnstile.enter()
            defer { turnstile.leave() }
            try await askAgain(in: zone, &tally)
        }
    }

    /// Before a page of the zone is read: what this device wrote itself would look like somebody else's change in it.
    ///
    /// Throws while it is not known what became of the request: then the page has to wait. The zone's turnstile is the
    /// caller's.
    func askAgain(beforeReading zone: ZoneID) async throws(CKError) {
        var tally = SendTally(link: isPublic ? link.ofNow() : link, began: conditions.wallClock())
        let isOpen: Bool
        do {
            try await askAgain(in: zone, &tally)
            isOpen = try await file.pool.read { try SentRequest.find($0, in: zone) != nil }
        } catch {
            throw CKError(from: error)
        }
        await note(sent: tally, nil)
        if isOpen, let error = tally.error ?? tally.busy { throw error }
    }

    /// Writes down what a round of sending has come to, where it has come to anything.
    func note(sent tally: SendTally, _ failure: CKError?) async {
        var details = tally.details
        if !tally.refused.isEmpty { details.append(.refused(tally.refused.map(\.oid))) }
        guard !details.isEmpty || tally.sent > 0 || failure != nil else { return }
        await note(
            .export,
            began: tally.began,
            done: tally.sent,
            bytes: tally.bytes,
            error: failure ?? tally.refused.first?.error,
            details: details
        )
    }

    private func askAgain(in zone: ZoneID, _ tally: inout SendTally) async throws {
        let sent: SentRequest
        do {
            guard let open = try await file.pool.read({ try SentRequest.find($0, in: zone) }) else { return }
            sent = open
        } catch is JSONError {
            // As another version of this library may write it. What it was about is sent as any change is.
            return try await file.pool.write { try SentRequest.remove($0, in: zone) }
        }
        let names = sent.items.map(\.oid)
        inFlight.formUnion(names)
        defer { inFlight.subtract(names) }
        _ = try await exchange(sent, in: zone, &tally)
    }
}
