#if Postgres
    import Records
    import RelayCore

    /// The alerts that the relays of a cluster have sent, in the table `alert_incident`.
    ///
    /// An incident that no relay has seen for the quiet time is over; the one whose statement removes or replaces its row says
    /// so.
    struct PostgresAlertIncidents: AlertIncidents {
        private let pool: PostgresPool

        init(_ pool: PostgresPool) { self.pool = pool }

        private func run(_ pipeline: PostgresPipeline) throws(DirectoryError) -> [PostgresRows] {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                try pool.use(.writing) { connection throws(PostgresError) in try connection.run(pipeline) }
            }
        }

        func fires(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> AlertNews? {
            let quiet = PostgresValue.int(times.quiet.wholeMilliseconds)
            var pipeline = PostgresPipeline()
            pipeline.add(
                """
                INSERT INTO alert_incident AS i (rule, reported, seen) VALUES ($1, $2, $2)
                ON CONFLICT (rule) DO UPDATE SET reported = $2, seen = $2 WHERE least(i.seen, $2) <= $2 - $3 RETURNING 1
                """,
                .text(rule),
                .int(now.milliseconds),
                quiet
            )
            // Times that lie in the future: a clock was set back.
            pipeline.add(
                "UPDATE alert_incident SET seen = $2, reported = least(reported, $2) WHERE rule = $1",
                .text(rule),
                .int(now.milliseconds)
            )
            pipeline.add(
                "UPDATE alert_incident SET reported = $2 WHERE rule = $1 AND reported <= $2 - $3 RETURNING 1",
                .text(rule),
                .int(now.milliseconds),
                .int(times.reminder.wholeMilliseconds)
            )
            let rows = try run(pipeline)
            return rows[0].isEmpty ? rows[2].isEmpty ? nil : .lasts : .begins
        }

        func clears(_ rule: String, at now: Timestamp, _ times: AlertTimes) throws(DirectoryError) -> Bool {
            var pipeline = PostgresPipeline()
            pipeline.add(
                "UPDATE alert_incident SET seen = $2 WHERE rule = $1 AND seen > $2",
                .text(rule),
                .int(now.milliseconds)
            )
            pipeline.add(
                "DELETE FROM alert_incident WHERE rule = $1 AND seen <= $2 - $3 RETURNING 1",
                .text(rule),
                .int(now.milliseconds),
                .int(times.quiet.wholeMilliseconds)
            )
            return try run(pipeline)[1].isEmpty == false
        }

        func forget(_ rule: String) throws(DirectoryError) {
            var pipeline = PostgresPipeline()
            pipeline.add("DELETE FROM alert_incident WHERE rule = $1", .text(rule))
            _ = try run(pipeline)
        }
    }
#endif
