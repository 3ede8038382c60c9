import Synchronization

extension CKOperation {
    /// How an operation keeps a block: until it is over.
    ///
    /// Programs often name the operation inside its blocks. What these hold, with all records that they have gathered, would
    /// stay for as long as the process lives. Behind a lock, since a program may read a block while it goes.
    @propertyWrapper
    public struct Block<Value: ExpressibleByNilLiteral> {
        /// Carries a block, which any thread may call, over the edge of a lock.
        private struct Kept: @unchecked Sendable {
            var value: Value
        }

        private final class Place: Sendable {
            let kept = Mutex(Kept(value: nil))
        }

        private let place = Place()

        /// No block.
        public init() {}

        /// The block; `nil` once the operation is over.
        public var wrappedValue: Value {
            get { place.kept.withLock { $0 }.value }
            nonmutating set {
                let new = Kept(value: newValue)
                // What was there before ends behind the lock: its end may be that of much else.
                _ = place.kept.withLock { kept in
                    let before = kept
                    kept = new
                    return before
                }
            }
        }

        func letGo() { wrappedValue = nil }
    }
}

/// Operations that were made inside a block of one another.
///
/// Each may have its blocks from those before it, as programs write that fetch page after page: so they all keep theirs until
/// none is left to do.
final class OperationFamily: Sendable {
    private struct Member: @unchecked Sendable {
        // Unchecked as the operation itself.
        weak var operation: CKOperation?
    }

    private struct Members {
        var unfinished = 0
        var all: [Member] = []
    }

    /// That of the operation whose block is being called.
    @TaskLocal static var atWork: OperationFamily?

    private let members = Mutex(Members())

    func join(_ operation: CKOperation) {
        let member = Member(operation: operation)
        members.withLock { members in
            members.unfinished += 1
            members.all.removeAll { $0.operation == nil }
            members.all.append(member)
        }
    }

    /// One of them is over, or will never begin.
    func leave() {
        let over = members.withLock { members -> [Member] in
            members.unfinished -= 1
            guard members.unfinished == 0 else { return [] }
            defer { members.all = [] }
            return members.all
        }
        for member in over { member.operation?.letBlocksGo() }
    }
}
