#if Postgres
    extension PostgresLayout {
        /// The shards, in the database of shard 1, which says of every owner where they are: by its rows in `owner`.
        static let shards = """
            -- empty while there is one database
            CREATE TABLE shard (
                number bigint PRIMARY KEY,
                -- NULL: this database
                url text,
                -- whether new owners may come to it
                takes_owners boolean NOT NULL DEFAULT true,
                -- how many bytes it has for data, if an operator has said it
                room bigint,
                -- what was measured last, and the number of changes at that time
                bytes bigint NOT NULL DEFAULT 0,
                owners bigint NOT NULL DEFAULT 0,
                changes bigint NOT NULL DEFAULT 0,
                change_rate double precision NOT NULL DEFAULT 0,
                measured timestamptz
            );
            -- the shards other than 1 where users may have access to zones of others; too many do no harm
            CREATE TABLE visitor_shard (
                person bigint NOT NULL,
                shard bigint NOT NULL,
                PRIMARY KEY (person, shard)
            );
            -- the moves of owners that have begun and not ended
            CREATE TABLE owner_move (
                home bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                source bigint NOT NULL,
                target bigint NOT NULL,
                began timestamptz NOT NULL DEFAULT now(),
                PRIMARY KEY (home, name)
            );

            """
    }
#endif
