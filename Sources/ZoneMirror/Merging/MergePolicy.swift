public import Foundation
public import GRDB

/// How two changes of one object with a common base are merged.
///
/// Used when a context saves over a row that changed since it was read, and when a pending change meets a newer record
/// of the relay. "Memory" is the context's or the pending values, "store" the row's or the relay's.
public enum MergePolicy: String, Hashable, Sendable, CaseIterable {
    /// The save fails, writes nothing, and the error lists all three states of each object.
    case error
    /// Merges by property; if both changed a property, the store's value wins.
    case mergeByPropertyStoreTrump
    /// Merges by property; if both changed a property, the memory's value wins.
    case mergeByPropertyObjectTrump
    /// The memory's whole object wins.
    case overwrite
    /// The store's whole object wins.
    case rollback
}

/// The three states of an object that was changed here and on the relay, as column values by property.
///
/// Links are the names of their targets.
public struct MergeStates: Hashable, Sendable {
    /// The entity.
    public var entity: String
    /// The object.
    public var name: RecordName
    /// The common base.
    public var base: [String: DatabaseValue]
    /// The values with the unsent changes.
    public var mine: [String: DatabaseValue]
    /// The relay's values.
    public var theirs: [String: DatabaseValue]
}

/// The application's function for merging an object.
///
/// Properties that it leaves out, and those for which it returns a value of another type, keep the relay's value. If
/// it returns `nil`, the store's policy decides. Called on the store's writer during an import: it must be quick and
/// return the same result on every device.
public typealias MergeResolver = @Sendable (MergeStates) -> [String: DatabaseValue]?

/// The application's function for merging one property; `base` is the common base.
///
/// Called like `MergeResolver`, and only if both sides changed the property. That includes changes to the same value,
/// so that a counter to which both added one increases by two; if both sides created the object, only changes to
/// different values. If it returns `nil` or a value of another type than the property's, the store's policy decides.
public typealias PropertyResolver =
    @Sendable (_ base: DatabaseValue, _ mine: DatabaseValue, _ theirs: DatabaseValue) -> DatabaseValue?

/// The decisions of the five policies, as pure functions.
///
/// See MergePolicies.md, "The five policies".
package enum PropertyMerge {
    /// The result of a merge.
    package struct Outcome<Value: Equatable & Sendable>: Equatable, Sendable {
        /// The merged values; `nil` means that the object is deleted.
        package var values: [Value]?
        /// The positions at which one side's change was dropped, and which side's.
        package var dropped: [Dropped]

        package struct Dropped: Equatable, Sendable {
            package var position: Int
            package var kept: Value
            package var dropped: Value

            package init(position: Int, kept: Value, dropped: Value) {
                self.position = position
                self.kept = kept
                self.dropped = dropped
            }
        }

        package init(values: [Value]?, dropped: [Dropped]) {
            self.values = values
            self.dropped = dropped
        }
    }

    /// Merges two edits; `nil` only for the policy `error` if both sides changed something differently.
    ///
    /// All three arrays have one value for each property, in the same order.
    package static func edits<Value: Equatable & Sendable>(
        base: [Value],
        memory: [Value],
        store: [Value],
        policy: MergePolicy
    ) -> Outcome<Value>? {
        guard store != base, memory != store else { return Outcome(values: memory, dropped: []) }
        guard memory != base else { return Outcome(values: store, dropped: []) }
        switch policy {
        case .error: return nil
        case .overwrite: return whole(kept: memory, lost: store, base)
        case .rollback: return whole(kept: store, lost: memory, base)
        case .mergeByPropertyStoreTrump: return byProperty(base, trumping: store, other: memory)
        case .mergeByPropertyObjectTrump: return byProperty(base, trumping: memory, other: store)
        }
    }

    /// Returns whether an object stays that was edited in memory and deleted in the store; `nil` for `error`.
    package static func keepsObjectDeletedInStore(_ policy: MergePolicy) -> Bool? {
        switch policy {
        case .error: nil
        case .mergeByPropertyObjectTrump, .overwrite: true
        case .mergeByPropertyStoreTrump, .rollback: false
        }
    }

    /// Returns whether an object stays that was deleted in memory and edited in the store; `nil` for `error`.
    package static func keepsObjectDeletedInMemory(_ policy: MergePolicy) -> Bool? {
        switch policy {
        case .error: nil
        case .mergeByPropertyObjectTrump, .overwrite: false
        case .mergeByPropertyStoreTrump, .rollback: true
        }
    }

    private static func whole<Value: Equatable & Sendable>(
        kept: [Value],
        lost: [Value],
        _ base: [Value]
    ) -> Outcome<Value> {
        let dropped = lost.indices.filter { lost[$0] != base[$0] && lost[$0] != kept[$0] }
            .map { Outcome<Value>.Dropped(position: $0, kept: kept[$0], dropped: lost[$0]) }
        return Outcome(values: kept, dropped: dropped)
    }

    private static func byProperty<Value: Equatable & Sendable>(
        _ base: [Value],
        trumping: [Value],
        other: [Value]
    ) -> Outcome<Value> {
        var merged = other
        var dropped: [Outcome<Value>.Dropped] = []
        for position in base.indices where trumping[position] != base[position] {
            if other[position] != base[position], other[position] != trumping[position] {
                dropped.append(.init(position: position, kept: trumping[position], dropped: other[position]))
            }
            merged[position] = trumping[position]
        }
        return Outcome(values: merged, dropped: dropped)
    }
}

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

extension MergeDecision {
    static func write(
        _ db: Database,
        _ oid: String,
        _ entity: String,
        _ property: String,
        kept: String,
        dropped: String,
        _ rule: Rule,
        at date: Date
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO mirror_decision(at, oid, entity, property, kept, dropped, policy)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [date.timeIntervalSince1970, oid, entity, property, kept, dropped, rule.word]
        )
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
