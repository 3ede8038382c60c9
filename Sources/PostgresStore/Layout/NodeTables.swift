#if Postgres
    extension PostgresLayout {
        /// The relays, with signs of life that are worth nothing after a crash of the server.
        static let nodes = """
            CREATE UNLOGGED TABLE node (
                name text COLLATE "C" PRIMARY KEY,
                -- drawn when the relay starts
                run bigint NOT NULL,
                version text NOT NULL,
                -- the server's process of the connection that listens
                backend bigint,
                started timestamptz NOT NULL DEFAULT clock_timestamp(),
                seen timestamptz NOT NULL
            );

            """
    }
#endif
