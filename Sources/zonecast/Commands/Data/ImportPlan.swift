import SyncCore
import Wire

/// In which order and in which requests records are saved, so that none is refused for want of another that comes later.
struct ImportPlan {
    /// What goes into one request each.
    let batches: [[JSONDocument]]

    /// `records` in the order of their file, which is that of their latest changes: what one leads to may well come after it.
    init(_ records: [JSONDocument]) {
        let names = records.map { $0.root.text("recordName") ?? "" }
        let places = Dictionary(zip(names, records.indices)) { $1 }
        let order = Self.targetsFirst(records.map { $0.root.targets.compactMap { places[$0] } })
        // A hundred bytes for the operation's own words.
        batches = BatchLimits().cut(order.map { records[$0] }) { $0.root.rawBytes.count + 100 }
    }

    /// All places, each after those that it leads to; where they lead in a circle, one of them comes too early.
    private static func targetsFirst(_ targets: [[Int]]) -> [Int] {
        var order: [Int] = []
        var isSeen = Array(repeating: false, count: targets.count)
        for start in targets.indices where !isSeen[start] {
            // Chains may be longer than the stack is deep.
            var path = [(place: start, next: 0)]
            isSeen[start] = true
            while let (place, next) = path.popLast() {
                guard next < targets[place].count else {
                    order.append(place)
                    continue
                }
                path.append((place, next + 1))
                let target = targets[place][next]
                if !isSeen[target] {
                    isSeen[target] = true
                    path.append((target, 0))
                }
            }
        }
        return order
    }
}

extension JSONValue {
    /// The names of the records that must be there before this one: its parent, and those it refers to.
    fileprivate var targets: [String] {
        let fields = (try? self["fields"]?.members()) ?? []
        let values = fields.compactMap { $0.value["value"] }.flatMap { (try? $0.elements()) ?? [$0] }
        return (values + [self["parent"]].compactMap { $0 }).compactMap { $0.isObject ? $0.text("recordName") : nil }
    }
}
