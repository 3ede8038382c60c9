import RelayAPI
import RelayCore
import RelayServer
import RelayStore
import Wire

/// Bounds of connections and sockets that few need to change.
extension ConfigurationKeys {
    static let transport: [ConfigurationKey] = [
        .whole(
            "limits.backlog",
            \.server.backlog,
            1...65_535,
            unit: "connections",
            "That wait to be accepted: after a restart all clients come back at once. The system's somaxconn caps it."
        ),
        .seconds(
            "limits.linger",
            \.server.limits.linger,
            0...60,
            "What a refused peer still sends is read for this long, so that it gets the answer."
        ),
        .whole(
            "limits.upload-pace",
            \.server.limits.uploadPace,
            1...1_073_741_824,
            unit: "bytes a second",
            "That an upload must bring on average, beyond limits.body-time."
        ),
        .seconds(
            "tls-check",
            \.server.tlsCheck,
            1...86_400,
            "How often the files of tls-cert and tls-key are looked at."
        ),
    ]

    static let noticeSockets: [ConfigurationKey] = [
        .seconds(
            "notices.hello-time",
            \.notices.helloTime,
            1...600,
            "To a client's first frame; beyond, its socket is closed."
        ),
        .seconds(
            "notices.ping-interval",
            \.notices.pingInterval,
            1...3600,
            "Between two pings; proxies commonly cut after 60 seconds of silence."
        ),
        .whole(
            "notices.missed-pings",
            \.notices.missedPings,
            1...100,
            unit: "pings",
            "Without a pong, before the peer counts as gone."
        ),
        .whole(
            "notices.frames-per-second",
            \.framesPerSecond,
            1...10_000,
            unit: "frames",
            "Of any kind from one client; beyond, its socket is closed."
        ),
        .whole("notices.frame-burst", \.frameBurst, 1...100_000, unit: "frames", "How many of those may come at once."),
        .whole(
            "notices.queue",
            \.notices.queuedNotices,
            1...100_000,
            unit: "notices",
            "For a slow reader, before they become one for the whole database."
        ),
        .whole(
            "notices.queue-bytes",
            \.notices.queuedBytes,
            1024...16_777_216,
            unit: "bytes",
            "Of those notices, likewise."
        ),
        .seconds(
            "notices.full-time",
            \.notices.fullTime,
            1...3600,
            "A reader whose queue is full this long is disconnected; it comes back and fetches."
        ),
        .seconds(
            "notices.longest-poll",
            \.limits.longestPoll,
            1...300,
            "How long a long poll waits for a notice; less than the proxy's time-out."
        ),
        .whole(
            "notices.catch-up-zones",
            \.notices.catchUpZones,
            1...10_000,
            unit: "zones",
            "When a device comes back to more changed zones it is told of the database in one notice."
        ),
        .whole(
            "limits.subscriptions",
            \.limits.subscriptionsPerDatabase,
            1...1_000_000,
            unit: "subscriptions",
            "Of one user in one database."
        ),
        .whole(
            "limits.subscription-bytes",
            \.limits.subscriptionBytesPerDatabase,
            16_384...1_073_741_824,
            unit: "bytes",
            "Of one user's subscriptions in one database together: they are held in memory."
        ),
        .whole(
            "limits.participants",
            \.limits.participants,
            2...1000,
            unit: "people",
            "In one share, its owner among them."
        ),
        .whole(
            "limits.unfinished-bodies",
            \.server.limits.unfinishedBodies,
            1_048_576...68_719_476_736,
            unit: "bytes",
            "Of bodies on their way in, held for all connections of one core. Beyond, larger ones are told to come again."
        ),
        .whole(
            "limits.unsent-answers",
            \.server.limits.unsentAnswers,
            16_777_216...68_719_476_736,
            unit: "bytes",
            "Of answers that their peers have not taken, held for all connections of one core. Beyond, the slowest are cut off."
        ),
        .whole(
            "limits.references-per-write",
            \.limits.bondsPerWrite,
            1000...100_000_000,
            unit: "references",
            "That one write may look at for what it deletes: nobody else writes to that container meanwhile."
        ),
        .whole(
            "limits.counted-records",
            \.limits.countedRecords,
            1000...1_000_000_000,
            unit: "records",
            "That one request may have counted, to hear how many follow its pages."
        ),
        .whole(
            "limits.query-filters",
            \.limits.queryFilters,
            1...100,
            unit: "filters",
            "In one query: each one more costs time for every record looked at."
        ),
        .whole("limits.query-sorts", \.limits.querySorts, 1...20, unit: "sort keys", "In one query."),
        .seconds("limits.query-time", \.queries.longestRun, 1...60, "Of one query; beyond, it is to be tried again."),
        .whole("limits.json-depth", \.limits.json.depth, 8...32, unit: "levels", "Of objects and arrays in a body."),
        .whole(
            "limits.json-members",
            \.limits.json.members,
            1000...10_000_000,
            unit: "members",
            "Of all objects and arrays in a body together."
        ),
        .whole(
            "limits.json-number",
            \.limits.json.numberLength,
            20...64,
            unit: "characters",
            "Of one number in a body."
        ),
    ]
}
