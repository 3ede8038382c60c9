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

    /// The number of this device's changes of the zone when prefetching began; a later one may be newer than its pages.
    let changes: Int
    private let state = Mutex(State())

    init(changes: Int) { self.changes = changes }

    /// Fetches pages up to the feed's end or the first failure.
    ///
    /// The next page is requested while the records of the current one are decoded.
    func run(
        _ client: any RelayClient,
        _ mapping: RecordMapping,
        _ zone: ZoneID,
        isPrivate: Bool,
        from start: SyncToken?
    ) async {
        var answer = await Self.ask(client, zone, start)
        var token = start
        while await hasRoom() {
            do throws(CKError) {
                let current = try answer.get()
                // The fetch round handles a feed whose token does not advance.
                let hasMore = current.moreComing && current.token != token
                token = current.token
                async let next = hasMore ? Self.ask(client, zone, current.token) : answer
                let page = try MirrorPage(current, of: zone, isPrivate: isPrivate, prepared: mapping)
                put(page, isLast: !hasMore)
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
        _ client: any RelayClient,
        _ zone: ZoneID,
        _ token: SyncToken?
    ) async -> Result<FeedPage, CKError> {
        do throws(CKError) {
            return .success(try await client.zoneChanges(in: zone, since: token, FeedOptions()))
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
