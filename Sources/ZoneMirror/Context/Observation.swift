import Foundation
public import Observation
import SyncCore
import ZoneKit

extension MirrorContext {
    /// Returns the results of a request, now and after each change, local or imported.
    ///
    /// Equal consecutive results are delivered once; of several changes in a row, only the newest result is. Unsaved
    /// changes of this context are included at the next commit.
    ///
    /// The stream ends when the container closes. While the request cannot be read, that is, while `fetch` would
    /// throw, the stream delivers nothing, and reads again after each change and after an increasing delay of 1 s to
    /// 60 s.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - failed: Called with each error that differs from the one before; an event of the kind `notice` reports it
    ///     too.
    /// - Returns: The results.
    public func objects<T: SyncedRecord>(
        _ request: FetchRequest<T>,
        failed: @escaping @Sendable (MirrorError) -> Void = { _ in }
    ) -> AsyncStream<[T]> {
        follow(request) { result in
            switch result {
            case .success(let found): return found
            case .failure(let error):
                failed(error)
                return nil
            }
        }
    }

    /// Delivers `element` of each result, and of each error that differs from the one before.
    fileprivate func follow<T: SyncedRecord, Element: Sendable>(
        _ request: FetchRequest<T>,
        _ element: @escaping @Sendable (Result<[T], MirrorError>) -> Element?
    ) -> AsyncStream<Element> {
        let (ticks, tick) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = stores.listen(to: [T.entityName], end: { tick.finish() }, { _ in tick.yield() })
        tick.yield()
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task { [self] in
                var last: [Origin?]?
                var failure: (text: String, delay: Duration, retry: Task<Void, Never>)?
                for await _ in ticks {
                    do throws(MirrorError) {
                        let found = try fetch(request)
                        let rows = found.map(\.id.origin)
                        if let last, failure == nil, Self.same(last, rows, found) { continue }
                        failure?.retry.cancel()
                        (last, failure) = (rows, nil)
                        if let element = element(.success(found)) { continuation.yield(element) }
                    } catch {
                        let text = error.localizedDescription
                        if failure?.text != text {
                            stores.failed(error, reading: T.entityName)
                            if let element = element(.failure(error)) { continuation.yield(element) }
                        }
                        failure?.retry.cancel()
                        let delay = min(failure.map { $0.delay * 2 } ?? .seconds(1), .seconds(60))
                        let time = stores.conditions.time
                        let retry: Task<Void, Never> = time.start {
                            if (try? await time.sleep(time.now() + delay)) != nil { tick.yield() }
                        }
                        failure = (text, delay, retry)
                    }
                }
                failure?.retry.cancel()
                continuation.finish()
            }
            continuation.onTermination = { [stores] _ in
                stores.stopListening(listener)
                tick.finish()
                task.cancel()
            }
        }
    }

    /// Returns the objects of an entity, now and after each change.
    public func objects<T: SyncedRecord>(
        _ type: T.Type,
        _ predicate: Condition<T>? = nil,
        sortedBy sorts: SortKey<T>...
    ) -> AsyncStream<[T]> {
        var request = FetchRequest(type, predicate)
        request.sorts = sorts
        return objects(request)
    }

    private static func same<T: SyncedRecord>(_ old: [Origin?], _ new: [Origin?], _ objects: [T]) -> Bool {
        guard old.count == new.count else { return false }
        // Rows do not contain the names, which distinguish equal rows in another order.
        return zip(old, new).allSatisfy { a, b in
            guard let a, let b else { return false }
            return a.row == b.row && a.store == b.store && a.name == b.name
        }
    }
}

/// The result of a request, kept up to date for views.
@MainActor @Observable public final class LiveObjects<T: SyncedRecord> {
    /// The current result; empty until the first read.
    public private(set) var objects: [T] = []
    /// The error of the last read, if it failed; `objects` is then the earlier result.
    public private(set) var error: MirrorError?
    @ObservationIgnored private var task: Task<Void, Never>?

    /// Starts to observe a request.
    public init(_ request: FetchRequest<T>, in context: MirrorContext) {
        do {
            objects = try context.fetch(request)
        } catch {
            self.error = error
        }
        task = Task { [weak self] in
            for await result in context.follow(request, { $0 }) {
                guard let self else { return }
                switch result {
                case .success(let found): (self.objects, self.error) = (found, nil)
                case .failure(let error): self.error = error
                }
            }
        }
    }

    isolated deinit { task?.cancel() }
}
