import RelayAPI
import RelayCore
import RelayServer
import Wire

/// Limits of connections, sockets and requests that rarely need a change.
extension ConfigurationKeys {
    static let transport: [ConfigurationKey] = [
        .whole(
            "limits.backlog",
            \.server.backlog,
            1...65_535,
            unit: "connections",
            "Connections waiting to be accepted; after a restart all clients reconnect at once. The system's somaxconn caps it."
        ),
        .seconds(
            "limits.linger",
            \.server.limits.linger,
            0...60,
            "How long the relay reads on after it has refused a request, so that the client receives the response."
        ),
        .whole(
            "limits.upload-pace",
            \.server.limits.uploadPace,
            1...1_073_741_824,
            unit: "bytes a second",
            "Minimum average rate of an upload that takes longer than limits.body-time."
        ),
        .seconds(
            "tls-check",
            \.server.tlsCheck,
            1...86_400,
            "How often the files of tls-cert and tls-key are checked for changes."
        ),
    ]

    static let noticeSockets: [ConfigurationKey] = [
        .seconds(
            "notices.hello-time",
            \.notices.helloTime,
            1...600,
            "Maximum time to a client's first frame; then its socket is closed."
        ),
        .seconds(
            "notices.ping-interval",
            \.notices.pingInterval,
            1...3600,
            "The time between two pings; many proxies close connections after 60 seconds without traffic."
        ),
        .whole(
            "notices.missed-pings",
            \.notices.missedPings,
            1...100,
            unit: "pings",
            "Unanswered pings before the connection is closed."
        ),
        .whole(
            "notices.frames-per-second",
            \.framesPerSecond,
            1...10_000,
            unit: "frames",
            "Maximum rate of frames from one client; beyond it, its socket is closed."
        ),
        .whole("notices.frame-burst", \.frameBurst, 1...100_000, unit: "frames", "Maximum burst of those frames."),
        .whole(
            "notices.queue",
            \.notices.queuedNotices,
            1...100_000,
            unit: "notices",
            "Queued notices for a slow client, before they are merged into one for the whole database."
        ),
        .whole(
            "notices.queue-bytes",
            \.notices.queuedBytes,
            1024...16_777_216,
            unit: "bytes",
            "Size of those queued notices, before they are merged."
        ),
        .seconds(
            "notices.full-time",
            \.notices.fullTime,
            1...3600,
            "A client whose queue stays full for this long is disconnected; it reconnects and fetches."
        ),
        .seconds(
            "notices.longest-poll",
            \.limits.longestPoll,
            1...300,
            "How long a long poll waits for a notice; must be less than the proxy's time-out."
        ),
        .whole(
            "notices.catch-up-zones",
            \.notices.catchUpZones,
            1...10_000,
            unit: "zones",
            "A device that reconnects to more changed zones than this receives one notice for the database."
        ),
        .whole(
            "limits.subscriptions",
            \.limits.subscriptionsPerDatabase,
            1...1_000_000,
            unit: "subscriptions",
            "Maximum subscriptions of one user in one database."
        ),
        .whole(
            "limits.subscription-bytes",
            \.limits.subscriptionBytesPerDatabase,
            16_384...1_073_741_824,
            unit: "bytes",
            "Maximum total size of one user's subscriptions in one database, which are kept in memory."
        ),
        .whole(
            "limits.participants",
            \.limits.participants,
            2...1000,
            unit: "people",
            "Maximum participants of one share, including its owner."
        ),
        .whole(
            "limits.unfinished-bodies",
            \.server.limits.unfinishedBodies,
            1_048_576...68_719_476_736,
            unit: "bytes",
            "Maximum memory for incomplete request bodies per core; beyond it, larger requests are refused and retried later."
        ),
        .whole(
            "limits.unsent-answers",
            \.server.limits.unsentAnswers,
            16_777_216...68_719_476_736,
            unit: "bytes",
            "Maximum memory for unsent responses per core; beyond it, the slowest clients are disconnected."
        ),
        .whole(
            "limits.references-per-write",
            \.limits.referencesPerWrite,
            1000...100_000_000,
            unit: "references",
            "Maximum references that one write may examine for its deletions; other writes to the container wait meanwhile."
        ),
        .whole(
            "limits.counted-records",
            \.limits.countedRecords,
            1000...1_000_000_000,
            unit: "records",
            "Maximum records that one request may have counted for the number of remaining results."
        ),
        .whole(
            "limits.query-filters",
            \.limits.queryFilters,
            1...100,
            unit: "filters",
            "Maximum filters of one query; each adds time for every record examined."
        ),
        .whole("limits.query-sorts", \.limits.querySorts, 1...20, unit: "sort keys", "Maximum sort keys of one query."),
        .seconds(
            "limits.query-time",
            \.queries.longestRun,
            1...60,
            "Maximum time of one query; then the client must retry it."
        ),
        .whole(
            "limits.json-depth",
            \.limits.json.depth,
            8...32,
            unit: "levels",
            "Maximum nesting of objects and arrays in a body."
        ),
        .whole(
            "limits.json-members",
            \.limits.json.members,
            1000...10_000_000,
            unit: "members",
            "Maximum total members of all objects and arrays in a body."
        ),
        .whole(
            "limits.json-number",
            \.limits.json.numberLength,
            20...64,
            unit: "characters",
            "Maximum length of one number in a body."
        ),
    ]
}
