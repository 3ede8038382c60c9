public import Foundation
import GRDB

/// A value that a merge dropped automatically.
public struct MergeDecision: Hashable, Sendable {
    /// When it was dropped.
    public var date: Date
    /// The object.
    public var object: ObjectID
    /// The property.
    public var property: String
    /// The value that was kept, in SQL notation; `NULL` also if the object was deleted.
    public var kept: String
    /// The value that was dropped, in SQL notation.
    public var dropped: String
    /// The rule that decided.
    public var rule: Rule

    /// The rules that decide merges.
    public enum Rule: Hashable, Sendable {
        /// The store's merge policy.
        case policy(MergePolicy)
        /// The later edit won.
        case lastEditWins
        /// The application's resolver.
        case resolver
        /// The object is gone from the relay.
        ///
        /// The policy would keep it, but the store accepts deletions or the name now belongs to another entity's
        /// object.
        case deletion

        var word: String {
            switch self {
            case .policy(let policy): policy.rawValue
            case .lastEditWins: "lastEditWins"
            case .resolver: "resolver"
            case .deletion: "deletion"
            }
        }

        init(word: String) {
            self =
                switch word {
                case "lastEditWins": .lastEditWins
                case "resolver": .resolver
                case "deletion": .deletion
                default: .policy(MergePolicy(rawValue: word) ?? .error)
                }
        }
    }
}

extension MirroredContainer {
    /// Returns the values that merges have dropped automatically in the last 30 days, newest first.
    public func mergeDecisions(_ store: StoreID) async throws(MirrorError) -> [MergeDecision] {
        let oldest = conditions.wallClock().addingTimeInterval(-30 * 86_400).timeIntervalSince1970
        return try await writing(store) { db in
            try db.execute(sql: "DELETE FROM mirror_decision WHERE at < ?", arguments: [oldest])
            let sql =
                "SELECT at, oid, entity, property, kept, dropped, policy FROM mirror_decision ORDER BY id DESC"
            return try Row.fetchAll(db, sql: sql).map { row in
                MergeDecision(
                    date: Date(timeIntervalSince1970: row[0]),
                    object: ObjectID(store: store, entity: row[2], name: RecordName(row[1])),
                    property: row[3],
                    kept: row[4] ?? "",
                    dropped: row[5] ?? "",
                    rule: MergeDecision.Rule(word: row[6])
                )
            }
        }
    }
}
