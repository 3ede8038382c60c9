/// The limits of one request, adapted to the relay's rejections.
///
/// See Sync.md, "Batches".
package struct BatchLimits: Hashable, Sendable {
    /// The most operations that the relay accepts in a request.
    package static let maxOperations = 200
    /// The most bytes of records in a request, without assets.
    package static let maxBytes = 2_000_000

    package private(set) var operations = BatchLimits.maxOperations
    package private(set) var bytes = BatchLimits.maxBytes

    package init() {}

    /// Halves the limits after the relay rejected a request of `count` operations as too large.
    package mutating func exceeded(by count: Int) {
        operations = max(1, min(operations, count) / 2)
        bytes = max(1, bytes / 2)
    }

    /// Doubles the limits after a successful request, so that one rejection does not keep batches small forever.
    package mutating func accepted() {
        operations = min(Self.maxOperations, operations * 2)
        bytes = min(Self.maxBytes, bytes * 2)
    }

    /// Splits items into requests.
    ///
    /// An item larger than a whole request is sent alone: only the relay can decide that it is too large.
    package func split<Item>(_ items: [Item], size: (Item) -> Int) -> [[Item]] {
        var requests: [[Item]] = []
        var filling = BatchFill(limits: self)
        for item in items {
            if filling.admits(size(item)) {
                requests[requests.count - 1].append(item)
            } else {
                requests.append([item])
            }
        }
        return requests
    }

    /// A request that is being filled.
    package struct BatchFill {
        let limits: BatchLimits
        private var operations: Int
        private var bytes = 0

        /// Starts without an open request, so that the first item opens one.
        init(limits: BatchLimits) {
            self.limits = limits
            operations = limits.operations
        }

        /// Returns whether an item of `size` bytes fits into the open request; if not, it opens the next one.
        mutating func admits(_ size: Int) -> Bool {
            let fits = operations < limits.operations && bytes + size <= limits.bytes
            operations = fits ? operations + 1 : 1
            bytes = fits ? bytes + size : size
            return fits
        }
    }
}
