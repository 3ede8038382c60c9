import Records
import SyncCore
import Synchronization
import ZoneKit

/// Prefetches a zone's pages while others are being imported.
///
/// The importer takes all pages that are available at once. So a slow disk makes larger transactions, a slow network
/// makes small ones, and the first page is shown immediately. It pauses when `depth` pages or `room` bytes are
/// waiting. Record names are random, so each import transaction writes most pages of three indexes, however few
/// records it has: many small transactions would write the same pages repeatedly, while a local save waits for one of
/// them, about 0.15 s at this depth.
final class PagePrefetcher: Sendable {
    private struct State {
        var pages: [MirrorPage] = []
        var failure: CKError?
        var isEnded = false
        var consumer: CheckedContinuation<Void, Never>?
        var producer: CheckedContinuation<Void, Never>?

        /// Whether a call of `take` returns without waiting.
        var isReady: Bool { !pages.isEmpty || failure != nil || isEnded }
        var hasRoom: Bool { pages.count < depth && pages.reduce(0) { $0 + $1.bytes } < room }
    }

    private static let depth = 32
    private static let room = 16 << 20

    /// The number of requests sent to the zone when prefetching began; a later one may be newer than its pages.
    let sends: Int
    private let state = Mutex(State())

    init(sends: Int) { self.sends = sends }

    /// Fetches pages up to the feed's end or the first failure.
    ///
    /// The next page is requested while the records of the current one are decoded.
    func run(_ link: MirrorLink, _ mapping: RecordMapping, _ zone: ZoneID, from start: SyncToken?) async {
        var answer = await Self.ask(link, zone, start)
        var token = start
        while await hasRoom() {
            do throws(CKError) {
                let current = try answer.get()
                // The fetch round handles a feed whose token does not advance.
                let hasMore = current.moreComing && current.token != token
                token = current.token
                async let next = hasMore ? Self.ask(link, zone, current.token) : answer
                put(try link.page(of: current, in: zone, prepared: mapping), isLast: !hasMore)
                answer = await next
                guard hasMore else { return }
            } catch {
                fail(error)
                return
            }
        }
        // The task may have been cancelled while a caller waits for the next page.
        fail(CKError(.operationCancelled))
    }

    private static func ask(
        _ link: MirrorLink,
        _ zone: ZoneID,
        _ token: SyncToken?
    ) async -> Result<FeedPage, CKError> {
        do throws(CKError) {
            return .success(try await link.client.zoneChanges(in: zone, since: token, FeedOptions()))
        } catch {
            return .failure(error)
        }
    }

    /// Returns the pages that arrived since the last call, joined to one; waits for the first.
    ///
    /// A failure is returned after the pages before it.
    func take() async -> Result<MirrorPage, CKError> {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.isReady { return true }
                state.consumer = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        let (pages, failure, producer) = state.withLock { state in
            defer {
                state.pages = []
                state.producer = nil
            }
            return (state.pages, state.failure, state.producer)
        }
        producer?.resume()
        guard let first = pages.first else { return .failure(failure ?? CKError(.operationCancelled)) }
        return .success(pages.dropFirst().reduce(into: first) { $0.append($1) })
    }

    /// Ends prefetching; pages are no longer taken.
    func stop() {
        let (consumer, producer) = state.withLock { state in
            defer { (state.isEnded, state.consumer, state.producer) = (true, nil, nil) }
            return (state.consumer, state.producer)
        }
        consumer?.resume()
        producer?.resume()
    }

    private func hasRoom() async -> Bool {
        await withCheckedContinuation { continuation in
            let hasMore = state.withLock { state in
                if state.isEnded || state.hasRoom { return true }
                state.producer = continuation
                return false
            }
            if hasMore { continuation.resume() }
        }
        return state.withLock { !$0.isEnded } && !Task.isCancelled
    }

    private func put(_ page: MirrorPage, isLast: Bool) {
        resumeConsumer {
            $0.pages.append(page)
            $0.isEnded = $0.isEnded || isLast
        }
    }

    private func fail(_ error: CKError) {
        resumeConsumer {
            $0.failure = error
            $0.isEnded = true
        }
    }

    private func resumeConsumer(_ change: (inout State) -> Void) {
        let consumer = state.withLock { state in
            change(&state)
            defer { state.consumer = nil }
            return state.consumer
        }
        consumer?.resume()
    }
}

extension MirrorPage {
    /// Appends the page that follows this one in the feed.
    mutating func append(_ next: MirrorPage) {
        // A record that was deleted and created again in between stays.
        if !records.deleted.isEmpty, !next.records.changed.isEmpty {
            let back = Set(next.records.changed.map(\.id))
            records.deleted.removeAll { back.contains($0.id) }
        }
        records.changed += next.records.changed
        records.deleted += next.records.deleted
        records.token = next.records.token
        records.moreComing = next.records.moreComing
        shares += next.shares
        moveTargets.merge(next.moveTargets) { $1 }
        bytes += next.bytes
        prepared = prepared.isEmpty || next.prepared.isEmpty ? [] : prepared + next.prepared
        hasKeys = hasKeys || next.hasKeys
    }
}

extension MirrorPage {
    /// Splits the page into parts whose asset values fit into memory together; deletions and the token are in the last
    /// part.
    ///
    /// Returns the page itself if no value is in an asset.
    func parts(room: Int) -> [MirrorPage] {
        let ranges = records.changed.parts(room: room)
        guard ranges.count > 1 else { return [self] }
        return ranges.enumerated().map { number, range in
            var part = self
            part.isFirstPart = number == 0
            part.isLastPart = number == ranges.count - 1
            part.records.changed = Array(records.changed[range])
            part.prepared = prepared.isEmpty ? [] : Array(prepared[range])
            let names = Set(part.records.changed.map(\.id.recordName))
            part.shares = shares.filter { names.contains($0.name) }
            guard !part.isLastPart else { return part }
            part.records.deleted = []
            part.records.moreComing = true
            part.hasKeys = false
            return part
        }
    }
}

extension [Record] {
    /// Returns at least one range of records; each has at most `room` bytes of asset values, or one record.
    func parts(room: Int) -> [Range<Int>] {
        var (parts, start, bytes): ([Range<Int>], Int, Int64) = ([], 0, 0)
        for index in indices {
            let more = self[index].bytesInFiles
            if bytes > 0, bytes + more > Int64(room) {
                parts.append(start..<index)
                (start, bytes) = (index, 0)
            }
            bytes += more
        }
        parts.append(start..<count)
        return parts
    }
}

extension Record {
    /// The size of the values that a mirror reads from assets.
    fileprivate var bytesInFiles: Int64 {
        fields.reduce(0) { sum, field in
            guard case .asset(let asset) = field.value, field.key.hasSuffix(RecordMapping.companionSuffix) else {
                return sum
            }
            return sum + Swift.max(0, asset.size)
        }
    }
}
