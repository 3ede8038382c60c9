import SyncCore
import Wire

/// The order and batches in which imported records are saved, so that references point to records that exist.
struct ImportPlan {
    /// The records of each request.
    let batches: [[JSONDocument]]

    /// Plans the import of `records`, which are in file order (by latest change), so that targets may follow their
    /// references.
    init(_ records: [JSONDocument]) {
        let names = records.map { $0.root.text("recordName") ?? "" }
        let places = Dictionary(zip(names, records.indices)) { $1 }
        let order = Self.targetsFirst(records.map { $0.root.targets.compactMap { places[$0] } })
        // About 100 bytes for the operation around the record.
        batches = BatchLimits().cut(order.map { records[$0] }) { $0.root.rawBytes.count + 100 }
    }

    /// Returns all indexes, each after its targets; in a cycle, one precedes its target.
    private static func targetsFirst(_ targets: [[Int]]) -> [Int] {
        var order: [Int] = []
        var isSeen = Array(repeating: false, count: targets.count)
        for start in targets.indices where !isSeen[start] {
            // An explicit stack, since chains may be too long for recursion.
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
    /// The names of the parent and of all referenced records.
    fileprivate var targets: [String] {
        let fields = (try? self["fields"]?.members()) ?? []
        let values = fields.compactMap { $0.value["value"] }.flatMap { (try? $0.elements()) ?? [$0] }
        return (values + [self["parent"]].compactMap { $0 }).compactMap { $0.isObject ? $0.text("recordName") : nil }
    }
}
