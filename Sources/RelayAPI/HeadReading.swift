import Records
import Synchronization

/// What the relay reads from a request's head, however often the head comes.
final class HeadReading: Sendable {
    let route: Result<Route, RelayError>
    /// Which container its path speaks of, when it does; also where `route` is none.
    let home: ContainerEnvironment?
    /// Whether its path can be nothing but an operation's.
    let isOfOperation: Bool
    let shown: PresentedCredentials
    /// Whether it is signed, as each such request is by itself.
    let isSigned: Bool
    /// What the credentials are remembered by; `nil` for a path of no container.
    let grantKey: GrantKey?
    private let welcomed = Atomic<Bool>(false)
    private let latest = Mutex<Authentication?>(nil)
    private let types = Mutex<KnownTypes?>(nil)
    private let zones = Mutex<ZoneReading?>(nil)

    /// The zone that its latest request spoke of: mostly that of the next one.
    var zone: ZoneReading? {
        get { zones.withLock { $0 } }
        set { zones.withLock { $0 = newValue } }
    }

    /// What the latest request came to by these credentials: mostly the next one comes to the same.
    var authentication: Authentication? {
        get { latest.withLock { $0 } }
        set { latest.withLock { $0 = newValue } }
    }

    /// The record types of its container, looked up once.
    func types(in all: AllKnownTypes, of home: ContainerEnvironment) -> KnownTypes {
        types.withLock { types in
            if let types { return types }
            let found = all[home]
            types = found
            return found
        }
    }

    /// Whether its user is known to have been welcomed: whoever the credentials stand for, they never stand for another.
    var isWelcomed: Bool {
        get { welcomed.load(ordering: .relaxed) }
        set { welcomed.store(newValue, ordering: .relaxed) }
    }

    init(_ head: RequestHead.Content) {
        let segments = Result { () throws(RelayError) in try Route.segments(of: head.path) }
        route = segments.flatMap { segments in
            Result { () throws(RelayError) in try Route(segments: segments) }
        }
        home = (try? segments.get()).flatMap { Route.home(of: $0) }
        isOfOperation = head.path.utf8.starts(with: "/database/1/".utf8)
        let shown = PresentedCredentials(head)
        self.shown = shown
        isSigned = shown.signature.isPresent
        grantKey = if case .success(let route) = route { GrantKey(home: route.home, shown) } else { nil }
    }
}
