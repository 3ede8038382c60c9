/// The nodes of a JSON text, in the order in which their values begin.
///
/// Uses its own memory instead of an array: a record of four fields has about 36 nodes, and appending one then costs a
/// comparison and a store, without a uniqueness check.
struct JSONTape: ~Copyable, Sendable {
    struct Node: Sendable {
        /// The position of the value's first byte; for strings, of the first byte after the quote.
        var start: UInt32
        /// The position after the value's last byte; for strings, of the closing quote.
        var end: UInt32
        /// The tape index after the value and its descendants.
        var next: UInt32
        var kind: JSONDocument.Kind

        /// The length of the value's text in bytes; for strings, without the quotes.
        var length: Int { Int(end &- start) }
    }

    // Written only by the scanner, on its thread; the document only reads it, on any thread.
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

    /// Appends a node; for a container, `end` and `next` are set when it is closed.
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
