import Synchronization

extension CKOperation {
    /// Stores an operation's block until the operation has finished.
    ///
    /// An app often refers to the operation inside its blocks; without a release, the retain cycle would keep the
    /// operation and all records it has collected. A lock protects the block, because the app may read it while it is
    /// being released.
    @propertyWrapper
    public struct Block<Value: ExpressibleByNilLiteral> {
        /// Carries a block across the lock.
        ///
        /// Any thread may call the block.
        private struct Kept: @unchecked Sendable {
            var value: Value
        }

        private final class Place: Sendable {
            let kept = Mutex(Kept(value: nil))
        }

        private let place = Place()

        /// Creates a storage without a block.
        public init() {}

        /// The block; `nil` after the operation has finished.
        public var wrappedValue: Value {
            get { place.kept.withLock { $0 }.value }
            nonmutating set {
                let new = Kept(value: newValue)
                // The previous block is released outside the lock, since that may release many other objects.
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

/// The operations that were created inside each other's blocks.
///
/// An app that fetches page after page may assign an operation's blocks to the next operation. All operations of the
/// family therefore keep their blocks until all of them have finished.
final class OperationFamily: Sendable {
    private struct Member: @unchecked Sendable {
        // Unchecked for the same reason as the operation itself.
        weak var operation: CKOperation?
    }

    private struct Members {
        var unfinished = 0
        var all: [Member] = []
    }

    /// The family of the operation whose block is being called.
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

    /// Called when an operation has finished or will never start.
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
