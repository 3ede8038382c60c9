import GRDB
import RelayCore
import RelayStore
import Synchronization

extension Reply {
    /// What a failed answer says of its write; `nil` for success.
    func failure(in items: StaticString) -> Step.Outcome? {
        guard let (code, reason) = error(of: items) else { return nil }
        let isTrouble = status >= 500 || ["TRY_AGAIN_LATER", "INTERNAL_ERROR"].contains(code)
        return isTrouble ? .unknown(code: code, reason: reason) : .refused(code: "\(code): \(reason)")
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

    /// Changes records of one zone, all or none.
    func modify(
        _ database: String,
        as user: String = alice,
        zone: String,
        _ operations: [String]
    ) async throws -> Step.Outcome {
        // The public database takes no atomic batches.
        let atomic = database == "public" ? "" : #""atomic":true,"#
        let body = #"{"zoneID":\#(zone),\#(atomic)"operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try await ask("\(database)/records/modify", as: user, body)
        if let outcome = answer.failure(in: "records") { return outcome }
        try noteTags(answer)
        return .done
    }

    /// Returns when the store has done, and said what became of, all that it began before: clearing up, writing its log back.
    func settle() async {
        // Its thread does one thing after the other.
        _ = try? await store().write { _ in }
    }

    /// Returns when nothing is left of deleted zones; where the disk has failed, after a moment too: a purge that fails
    /// waits for another write.
    func waitForPurge() async throws {
        guard let file = try? DatabaseQueue(path: file) else { return }
        let start = ContinuousClock.now
        var rest = 1
        while rest > 0, !wantsRestart {
            let patience = disk?.hasStruck == true ? Duration.milliseconds(300) : .seconds(300)
            guard ContinuousClock.now - start < patience else { return }
            rest = (try? await file.read { try Int.fetchOne($0, sql: Self.leftovers) ?? 0 }) ?? 0
            // The relay purges in its own time and tells nobody; until then this thread is the purge's.
            if rest > 0 { try await Task.sleep(for: .milliseconds(1)) }
        }
    }

    private static let leftovers = "SELECT count(*) FROM zone WHERE deleted = 1 AND purged = 0"

    /// A write to the accounts.
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

    /// A change number that was given before is a device's lost update.
    private func noteTags(_ answer: Reply) throws {
        for record in try answer.items("records") {
            guard let tag = record.text("recordChangeTag") else { continue }
            try tags.note(tag, record: record.text("recordName") ?? "")
        }
    }
}

/// The change tags that clients have been given, over all starts of one folder.
final class Tags: Sendable {
    private let given: Mutex<[String: String]>

    init(_ given: [String: String] = [:]) { self.given = Mutex(given) }

    /// The same so far: for one of several fates of a folder.
    var copy: Tags { Tags(given.withLock { $0 }) }

    func note(_ tag: String, record: String) throws {
        let before = given.withLock { $0.updateValue(record, forKey: tag) }
        guard before == nil else {
            throw WorldFailure("the tag \(tag) of \(record) was given before, to \(before ?? "")")
        }
    }
}
