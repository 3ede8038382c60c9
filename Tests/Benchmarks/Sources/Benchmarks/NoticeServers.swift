import Sockets

/// What notice rows need from a server, relay or bare: sockets to hold and commits to make.
struct NoticeSide {
    var server: NoticeServer
    /// Where commits are sent.
    var requests: Endpoint
    var meter: ProcessMeter
    /// Returns the request that commits one record in a zone.
    var commit: (Int) -> NumberedRequest
}

extension Relay {
    /// Listener `n` is device `n` of one user; commits go to that user's zone `one`.
    func asOneUser() throws -> NoticeSide {
        try makeZones(["one"])
        try subscribe()
        let (upgrade, create) = (upgrade(), create(1, in: "one"))
        let hello = helloMaker()
        return NoticeSide(
            server: NoticeServer(
                listeners: endpoint,
                upgrade: { _ in upgrade },
                hello: { hello($0, nil) },
                greetings: 1
            ),
            requests: endpoint,
            meter: meter,
            commit: { _ in create }
        )
    }

    /// Creates users with a zone each; every `each` consecutive listeners belong to one user.
    func asManyUsers(_ count: Int, listenersEach each: Int) throws -> NoticeSide {
        for user in 0..<count {
            try makeZones(["zone"], as: .dev(user))
            try subscribe(as: .dev(user))
        }
        let upgrade = upgrade()
        let hello = helloMaker()
        return NoticeSide(
            server: NoticeServer(
                listeners: endpoint,
                upgrade: { _ in upgrade },
                hello: { hello($0, $0 / each) },
                greetings: 1
            ),
            requests: endpoint,
            meter: meter,
            commit: { self.create(1, in: "zone", as: .dev($0)) }
        )
    }
}

extension BareProcess {
    /// Listener `n` listens to zone `n / each`.
    ///
    /// With `syncs`, a commit is on the disk before its notices are sent.
    func asNoticeSide(listenersEach each: Int, syncs: Bool) -> NoticeSide {
        let (listeners, requests) = (listeners, requests)
        return NoticeSide(
            server: NoticeServer(
                listeners: listeners,
                upgrade: { HTTPRequest("GET", "/listen/\($0 / each)", to: listeners).bytes },
                hello: { _ in WebSocketFrame.fromClient(.text, Array("hello".utf8)) }
            ),
            requests: requests,
            meter: meter,
            commit: { zone in
                NumberedRequest(
                    HTTPRequest(
                        "POST",
                        "/\(syncs ? "commit" : "notify")/\(zone)",
                        to: requests,
                        body: Array(SampleRecord.row.utf8)
                    )
                )
            }
        )
    }
}
