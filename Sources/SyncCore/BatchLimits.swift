/// How much may go into one request, learned from the relay's refusals.
///
/// See Sync.md, "Batches".
package struct BatchLimits: Hashable, Sendable {
    /// The relay takes this many operations at most.
    package static let maxOperations = 200
    /// And this many bytes of records, assets not counted.
    package static let maxBytes = 2_000_000

    package private(set) var operations = BatchLimits.maxOperations
    package private(set) var bytes = BatchLimits.maxBytes

    package init() {}

    /// The relay found a request of `count` operations too large.
    package mutating func exceeded(by count: Int) {
        operations = max(1, min(operations, count) / 2)
        bytes = max(1, bytes / 2)
    }

    /// A request went through: creep back up, so that one odd refusal does not keep batches small for ever.
    package mutating func accepted() {
        operations = min(Self.maxOperations, operations * 2)
        bytes = min(Self.maxBytes, bytes * 2)
    }

    /// Cuts a line of items into requests.
    ///
    /// An item larger than a whole request goes alone: only the relay can say that it is too large.
    package func cut<Item>(_ items: [Item], size: (Item) -> Int) -> [[Item]] {
        var requests: [[Item]] = []
        var filling = Filling(limits: self)
        for item in items {
            if filling.admits(size(item)) {
                requests[requests.count - 1].append(item)
            } else {
                requests.append([item])
            }
        }
        return requests
    }

    /// One request while it is being filled.
    package struct Filling {
        let limits: BatchLimits
        private var operations: Int
        private var bytes = 0

        /// Nothing is open yet, so the first item is never admitted to what came before.
        init(limits: BatchLimits) {
            self.limits = limits
            operations = limits.operations
        }

        /// Does an item of `size` bytes fit into the open request.
        ///
        /// If not, it opens the next one.
        mutating func admits(_ size: Int) -> Bool {
            let fits = operations < limits.operations && bytes + size <= limits.bytes
            operations = fits ? operations + 1 : 1
            bytes = fits ? bytes + size : size
            return fits
        }
    }
}
