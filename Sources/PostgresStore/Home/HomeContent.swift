#if Postgres
    import Records
    import RelayCore

    /// Everything that the database has of one container in one environment.
    struct HomeContent {
        private let home: Int64

        /// Finds the content, and waits until no write to it is in progress; none can begin until the transaction ends.
        ///
        /// The result is `nil` if the environment is unused. The transaction of `connection` must have locked nothing of it.
        init?(_ home: ContainerEnvironment, _ connection: PostgresConnection) throws(PostgresError) {
            guard let row = try HomeRow.find(home, connection) else { return nil }
            self.home = row.number
            try connection.query("SELECT pg_advisory_xact_lock($1)", .int(row.schemaLock))
        }

        /// The rows that belong to shares, zones, owners, record types, indexes and the environment itself.
        ///
        /// Rows that are found by others come before those.
        private static let deletions: [String] =
            ["share_entry", "share_alias", "share_request", "participant"].map {
                "DELETE FROM \($0) WHERE share IN (SELECT id FROM share WHERE home = $1)"
            }
            + ["record", "reference", "asset_use", "shared_zone"].map {
                "DELETE FROM \($0) WHERE zone IN (SELECT id FROM zone WHERE home = $1)"
            }
            + ["done_write", "signed_write", "owner_epoch"].map {
                "DELETE FROM \($0) WHERE owner IN (SELECT id FROM person WHERE home = $1)"
            }
            + ["record_field", "record_grant", "retired_field"].map {
                "DELETE FROM \($0) WHERE type IN (SELECT id FROM record_type WHERE home = $1)"
            }
            + [
                """
                INSERT INTO asset_garbage (content) SELECT content FROM asset WHERE home = $1 AND is_object
                ON CONFLICT DO NOTHING
                """,
                "DELETE FROM field_value WHERE field IN (SELECT id FROM field_index WHERE home = $1)",
                """
                DELETE FROM asset_chunk WHERE content IN (
                    SELECT content FROM asset WHERE home = $1 UNION ALL SELECT content FROM asset_upload WHERE home = $1)
                """,
                "DELETE FROM visitor_shard WHERE person IN (SELECT id FROM person WHERE home = $1)",
                "DELETE FROM owner_move WHERE home = $1",
                "DELETE FROM owner WHERE id IN (SELECT id FROM person WHERE home = $1)",
            ]
            + [
                "field_index", "share", "subscription", "transfer", "role", "role_member", "asset", "asset_upload",
                "asset_pending", "record_type", "zone", "person", "home_epoch",
            ].map { "DELETE FROM \($0) WHERE home = $1" }
            + ["DELETE FROM home WHERE id = $1"]

        /// Deletes it all; the next use of the environment gives it another number.
        ///
        /// A relay that has the old number in memory is refused by its next read or write, and finds the new one.
        func remove(_ connection: PostgresConnection) throws(PostgresError) {
            var removal = PostgresPipeline()
            for statement in Self.deletions { removal.add(statement, .int(home)) }
            try connection.run(removal)
        }
    }
#endif
