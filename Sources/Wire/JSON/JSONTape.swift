/// The nodes of a JSON text, in the order in which their values begin.
///
/// In memory of its own and not in an array: a record of four fields makes three dozen of them, and each then costs a
/// comparison and a store, and no look at who else might hold them.
struct JSONTape: ~Copyable, Sendable {
    struct Node: Sendable {
        /// Where the value's text starts: for strings the first byte after the quote.
        var start: UInt32
        /// Where it ends; for strings the closing quote.
        var end: UInt32
        /// The tape index after the value and all it holds.
        var next: UInt32
        var kind: JSONDocument.Kind

        /// How many bytes its text has; of a string without the quotes.
        var length: Int { Int(end &- start) }
    }

    // Written by the scanner alone, on its thread; the document that it goes to only reads it, on any.
    nonisolated(unsafe) private var nodes: UnsafeMutablePointer<Node>
    private var capacity: Int
    private(set) var count = 0

    init(reserving capacity: Int) {
        self.capacity = max(capacity, 1)
        nodes = .allocate(capacity: self.capacity)
    }

    deinit { nodes.deallocate() }

    subscript(_ index: Int) -> Node {
        get {
            precondition(index >= 0 && index < count)
            return nodes[index]
        }
        set {
            precondition(index >= 0 && index < count)
            nodes[index] = newValue
        }
    }

    /// Appends a value that holds no others; to one that does its `end` and `next` come later.
    @inline(__always)
    mutating func append(_ kind: JSONDocument.Kind, from start: Int, to end: Int) {
        if count == capacity { grow() }
        let next = UInt32(truncatingIfNeeded: count + 1)
        let (start, end) = (UInt32(truncatingIfNeeded: start), UInt32(truncatingIfNeeded: end))
        (nodes + count).initialize(to: Node(start: start, end: end, next: next, kind: kind))
        count += 1
    }

    private mutating func grow() {
        let grown = UnsafeMutablePointer<Node>.allocate(capacity: capacity * 2)
        grown.update(from: nodes, count: count)
        nodes.deallocate()
        nodes = grown
        capacity *= 2
    }
}
