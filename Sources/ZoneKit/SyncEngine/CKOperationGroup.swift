public import Foundation
import Synchronization

/// Several requests that serve one purpose, under one name in the relay's log.
public final class CKOperationGroup: NSObject, Sendable {
    private struct State {
        var name: String?
        var quantity = 0
    }

    /// Unlike that of every other group.
    public let operationGroupID = UUID().uuidString
    private let state = Mutex(State())

    /// What the group is for; for people.
    public var name: String? {
        get { state.withLock { $0.name } }
        set { state.withLock { $0.name = newValue } }
    }

    /// How many things the program expects to work on.
    public var quantity: Int {
        get { state.withLock { $0.quantity } }
        set { state.withLock { $0.quantity = newValue } }
    }
}
