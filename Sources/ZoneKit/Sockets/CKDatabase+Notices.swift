import Records
package import SyncCore
import Wire

extension CKDatabase {
    /// The ID of the subscription that delivers notices to an engine or a mirror, unless the app chooses another.
    package var changesSubscriptionID: String { "\(scope.pathName)-changes" }

    /// Creates the subscription that delivers notices.
    ///
    /// Retries until the relay accepts it, the relay refuses it for good, or the task is cancelled.
    package func subscribeToChanges(
        as id: String,
        notBefore held: Moment? = nil,
        time: Timekeeper,
        chance: Chance
    ) async {
        if let held, held > time.now(), (try? await time.sleep(held)) == nil { return }
        var (backoff, chance) = (Backoff.requests, chance)
        let body = ClientRequest.modify(creating: [Subscription(id: id, kind: .database)], deleting: [])
        while !Task.isCancelled {
            do throws(CKError) {
                _ = try await call("subscriptions/modify", body, isWrite: true)
                return
            } catch {
                let trouble = error.trouble
                guard trouble.isRetriedAutomatically else { return }
                let wait = trouble.retryAfter ?? backoff.failed(using: &chance)
                guard (try? await time.sleep(time.now() + wait)) != nil else { return }
            }
        }
    }
}
