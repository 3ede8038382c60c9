public import GRDB

/// What becomes of two changes to one object that began from the same state.
///
/// Used where a context saves over a row that changed since it was read, and where a pending change meets a newer
/// record of the relay; "in memory" is the context's or the pending values, "in store" the row's or the relay's.
public enum MergePolicy: String, Hashable, Sendable, CaseIterable {
    /// The save fails, nothing is written, and the error lists all three states of each object.
    case error
    /// Property by property; where both changed one, the store's value stays.
    case mergeByPropertyStoreTrump
    /// Property by property; where both changed one, memory's value wins.
    case mergeByPropertyObjectTrump
    /// Memory's whole object wins.
    case overwrite
    /// The store's whole object stays.
    case rollback
}

/// Three states of one object that was changed here and on the relay: property by property, as the table has them.
///
/// Links are the names of the objects that they lead to.
public struct MergeStates: Hashable, Sendable {
    /// The entity.
    public var entity: String
    /// The object.
    public var name: RecordName
    /// What both began from.
    public var base: [String: DatabaseValue]
    /// With the changes that were not sent.
    public var mine: [String: DatabaseValue]
    /// As the relay has it.
    public var theirs: [String: DatabaseValue]
}

/// Merges an object by the program's own rules; what it leaves out stays as the relay has it, as does a property for which it
/// gives a value of another type.
///
/// Called on the store's writer, in the middle of an import: it must be quick, and give the same answer on every device.
/// `nil`: the store's policy decides.
public typealias MergeResolver = @Sendable (MergeStates) -> [String: DatabaseValue]?

/// Merges one property by the program's own rules: `base` is what both began from.
///
/// Called as `MergeResolver` is, and only where both sides changed the property: also to the same value, so that a count to which
/// both have added one is two more; to different ones only where both made the object. `nil`, and a value of another type than
/// the property's: the store's policy decides.
public typealias PropertyResolver =
    @Sendable (_ base: DatabaseValue, _ mine: DatabaseValue, _ theirs: DatabaseValue) -> DatabaseValue?

/// The decisions of the five policies, as values.
///
/// See MergePolicies.md, "The five policies".
package enum PropertyMerge {
    /// What a merge came to.
    package struct Outcome<Value: Equatable & Sendable>: Equatable, Sendable {
        /// `nil`: the object is deleted.
        package var values: [Value]?
        /// The positions at which one side's change was dropped, and whose.
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

    /// Merges two edits; `nil` only for the policy `error` where both sides changed something differently.
    ///
    /// All three have one value for each property, in the same order.
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

    /// An object edited in memory and deleted in the store.
    ///
    /// `nil` for `error`; otherwise whether it stays.
    package static func keepsObjectDeletedInStore(_ policy: MergePolicy) -> Bool? {
        switch policy {
        case .error: nil
        case .mergeByPropertyObjectTrump, .overwrite: true
        case .mergeByPropertyStoreTrump, .rollback: false
        }
    }

    /// An object deleted in memory and edited in the store.
    ///
    /// `nil` for `error`; otherwise whether it stays.
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
