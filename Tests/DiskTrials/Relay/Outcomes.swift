import GRDB
import RelayCore
import SQLiteStore
import Synchronization

extension Reply {
    /// The outcome of a write that failed; `nil` for success.
    func failure(in items: StaticString) -> Step.Outcome? {
        guard let (code, reason) = error(of: items) else { return nil }
        let isServerError = status >= 500 || ["TRY_AGAIN_LATER", "INTERNAL_ERROR"].contains(code)
        return isServerError ? .unknown(code: code, reason: reason) : .refused(code: "\(code): \(reason)")
    }
}

extension DiskWorld {
    func outcome(
        of operation: String,
        as user: String = alice,
        _ body: String,
        items: StaticString
    ) async throws -> Step.Outcome {
        try await ask(operation, as: user, body).failure(in: items) ?? .done
    }

    /// Changes records of one zone atomically.
    func modify(
        _ database: String,
        as user: String = alice,
        zone: String,
        _ operations: [String]
    ) async throws -> Step.Outcome {
        // The public database has no atomic batches.
        let atomic = database == "public" ? "" : #""atomic":true,"#
        let body = #"{"zoneID":\#(zone),\#(atomic)"operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try await ask("\(database)/records/modify", as: user, body)
        if let outcome = answer.failure(in: "records") { return outcome }
        try noteTags(answer)
        return .done
    }

    /// Returns when the store has finished and reported all background work that it began before, such as checkpoints.
    func settle() async {
        // The store's thread runs one task at a time.
        _ = try? await store().write(touching: Zone.publicOwner) { _ in }
    }

    /// Returns when deleted zones are purged completely.
    ///
    /// After a disk fault it returns after a short time too: a failed purge waits for another write.
    func waitForPurge() async throws {
        guard let file = try? DatabaseQueue(path: file) else { return }
        let start = ContinuousClock.now
        var rest = 1
        while rest > 0, !wantsRestart {
            let patience = disk?.hasStruck == true ? Duration.milliseconds(300) : .seconds(300)
            guard ContinuousClock.now - start < patience else { return }
            rest = (try? await file.read { try Int.fetchOne($0, sql: Self.leftovers) ?? 0 }) ?? 0
            // The relay purges in the background and sends no signal, so this polls.
            if rest > 0 { try await Task.sleep(for: .milliseconds(1)) }
        }
    }

    private static let leftovers = "SELECT count(*) FROM zone WHERE deleted = 1 AND purged = 0"

    /// Runs a write to the accounts.
    func outcome(of body: (AccountStore) throws -> Void) throws -> Step.Outcome {
        do {
            try body(directory)
            return .done
        } catch DirectoryError.unavailable(let text) {
            return .unknown(code: "unavailable", reason: text)
        } catch let error as DirectoryError {
            return .refused(code: "\(error)")
        }
    }

    /// Checks that no change tag is given out twice: that would make a device miss an update.
    private func noteTags(_ answer: Reply) throws {
        for record in try answer.items("records") {
            guard let tag = record.text("recordChangeTag") else { continue }
            try tags.note(tag, record: record.text("recordName") ?? "")
        }
    }
}

/// The change tags that clients received, over all starts on one folder.
package final class Tags: Sendable {
    private let given: Mutex<[String: String]>

    init(_ given: [String: String] = [:]) { self.given = Mutex(given) }

    /// A copy, for one of several continuations of a folder.
    var copy: Tags { Tags(given.withLock { $0 }) }

    func note(_ tag: String, record: String) throws {
        let before = given.withLock { $0.updateValue(record, forKey: tag) }
        guard before == nil else {
            throw WorldFailure("the tag \(tag) of \(record) was given before, to \(before ?? "")")
        }
    }
}
