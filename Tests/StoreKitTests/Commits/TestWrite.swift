import Records
import RelayCore

/// A write that only its name tells apart from others.
final class TestWrite: StoreWrite {
    let name: String
    let user: UserID?
    let owner: UserID?
    /// The bytes that it reads and writes.
    let bytes: Int
    var prefetch: Prefetch { Prefetch() }
    private let then: @Sendable () -> Void

    init(
        _ name: String,
        for user: UserID?,
        in owner: UserID?,
        bytes: Int = 0,
        then: @escaping @Sendable () -> Void = {}
    ) {
        (self.name, self.user, self.owner, self.bytes, self.then) = (name, user, owner, bytes, then)
    }

    func run(in writer: any StoreWriter) {}
    func finish(_ failure: RelayError?) { then() }
}

extension UserID {
    /// The user with this number.
    static func number(_ number: Int) -> UserID { UserID("_\(number)") }
}
