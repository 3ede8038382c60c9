import Records

/// What the relay reads from a request's head, however often the head comes.
final class HeadReading: Sendable {
    let route: Result<Route, RelayError>
    let shown: PresentedCredentials

    init(_ head: RequestHead.Content) {
        route = Result { () throws(RelayError) in try Route(path: head.path) }
        shown = PresentedCredentials(head)
    }
}
