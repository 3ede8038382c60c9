/// A three-way merge of two edits, field by field.
///
/// A model of what mirrors do with `MergePolicy`; see Sync.md, "Merging".
enum Merge {
    /// The side whose value is kept if both sides changed a field.
    enum Winner: Hashable, Sendable { case mine, theirs }

    /// The merged fields, and the names of the fields where one side's change was lost.
    struct Outcome<Value: Equatable & Sendable>: Equatable, Sendable {
        var fields: [String: Value]
        var lost: [String]

        init(fields: [String: Value], lost: [String] = []) {
            self.fields = fields
            self.lost = lost
        }
    }

    /// Merges `mine` and `theirs`; `base` is the relay's state when `mine` began.
    ///
    /// A name that is missing from a dictionary means that the field has no value.
    static func fields<Value: Equatable & Sendable>(
        base: [String: Value],
        mine: [String: Value],
        theirs: [String: Value],
        preferring: Winner
    ) -> Outcome<Value> {
        var merged = theirs
        var lost: [String] = []
        for name in Set(base.keys).union(mine.keys).union(theirs.keys).sorted() {
            let old = base[name]
            guard mine[name] != old, mine[name] != theirs[name] else { continue }
            if theirs[name] != old {
                lost.append(name)
                if preferring == .theirs { continue }
            }
            merged[name] = mine[name]
        }
        return Outcome(fields: merged, lost: lost)
    }
}
