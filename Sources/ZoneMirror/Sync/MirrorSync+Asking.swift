import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

/// Sending requests, and repeating those whose responses were lost.
extension MirrorSync {
    /// Sends a stored request and applies its result; returns the items to send again immediately.
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

    /// Decrypts the saved records, which the relay returns completely, with fields that only a newer program knows.
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

    /// Handles a failure of the request as a whole, without a result for each change.
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
        // The request failed as a whole, so each of its changes gets the same error.
        return try await settle(request, request.map { _ in .failed(error, nil) }, zone, &tally)
    }

    /// Repeats requests that the relay may have executed without its response having arrived.
    ///
    /// Later changes build on them: they are sent only when the result is known.
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

    /// Repeats a zone's unanswered request before one of its pages is read, in which this device's own writes would
    /// look like those of others.
    ///
    /// Called with the zone's lock held.
    ///
    /// - Throws: An error while the result of the request is unknown; the page must wait then.
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

    /// Records the result of a round of sending as an event, if there is any.
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
            // Another version of this library may have stored it. Its changes are sent like any others.
            return try await file.pool.write { try SentRequest.remove($0, in: zone) }
        }
        let names = sent.items.map(\.oid)
        inFlight.formUnion(names)
        defer { inFlight.subtract(names) }
        _ = try await exchange(sent, in: zone, &tally)
    }
}
