import Records
import Synchronization

/// The parsed form of a request head, shared by all requests with the same head.
final class HeadReading: Sendable {
    let route: Result<Route, RelayError>
    /// The container in the path, if any; can be set even if `route` is a failure.
    let home: ContainerEnvironment?
    /// Whether the path begins with `/database/1/` and therefore can only be that of an operation.
    let isOfOperation: Bool
    let shown: PresentedCredentials
    /// Whether the request is signed with a server-to-server key.
    ///
    /// Each signed request must be verified separately.
    let isSigned: Bool
    /// The key under which the result of checking the credentials is cached; `nil` if the path names no container.
    let grantKey: GrantKey?
    private let welcomed = Atomic<Bool>(false)
    private let latest = Mutex<Authentication?>(nil)
    private let types = Mutex<KnownTypes?>(nil)
    private let zones = Mutex<ZoneReading?>(nil)

    /// The zone of the latest request.
    ///
    /// Usually the next request uses the same one.
    var zone: ZoneReading? {
        get { zones.withLock { $0 } }
        set { zones.withLock { $0 = newValue } }
    }

    /// The result of the latest authentication with these credentials, usually valid for the next request too.
    var authentication: Authentication? {
        get { latest.withLock { $0 } }
        set { latest.withLock { $0 = newValue } }
    }

    /// Returns the compiled record types of the container, looked up only once.
    func types(in all: AllKnownTypes, of home: ContainerEnvironment) -> KnownTypes {
        types.withLock { types in
            if let types { return types }
            let found = all[home]
            types = found
            return found
        }
    }

    /// Whether first-use provisioning is known to be done.
    ///
    /// Credentials never change their user, so this stays valid.
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
