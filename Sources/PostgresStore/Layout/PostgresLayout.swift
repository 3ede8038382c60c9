#if Postgres
    import Foundation

    /// The tables of all containers in one database, created and upgraded by the first relay that needs them.
    ///
    /// A relay compares the server's identity and timeline with the stored ones on each new connection. Another timeline
    /// means that a standby was promoted or a backup restored, so that the last commits may be missing: every owner then
    /// gets a new epoch, and change numbers leap, so that no number gets a second meaning.
    package struct PostgresLayout: Sendable {
        /// The version of the tables.
        ///
        /// A new one adds to the old, since relays of both versions run side by side during an upgrade.
        static let version: Int64 = 1

        /// The name of the cluster to which the database must belong; `nil` accepts any, and draws one for a new database.
        package var cluster: String?
        /// Whether to create the tables in an empty database.
        package var creates: Bool
        /// The number of the shard that the database must be.
        package var shard: Int

        package init(cluster: String?, creates: Bool = true, shard: Int = 1) {
            self.cluster = cluster
            self.creates = creates
            self.shard = shard
        }

        /// The server behind a connection, as it says of itself.
        package struct Server: Hashable, Sendable {
            /// Drawn when its files were created; the standbys of a server have the same.
            var identifier: Int64
            /// Grows with each promotion of a standby, and each restore.
            var timeline: Int64
        }

        /// The key of the advisory lock under which tables are created and epochs begin.
        private static let lock: Int64 = 0x7A6F_6E65_6361_7374

        /// How many change numbers a new timeline leaves unused: far more than one second's writes take.
        private static let leap: Int64 = 1 << 24

        /// How many shards there may be, and by how much the change numbers of each grow once there is a second one: each has
        /// the numbers with its own remainder, so that no two owners of a cluster ever have the same number.
        static let shardsInNumbers: Int64 = 64

        /// The number after `n`, in SQL, that is this shard's.
        static let ownNumber =
            "n - mod(n, \(shardsInNumbers)) + \(shardsInNumbers) + (SELECT shard FROM zonecast_layout)"

        /// The greatest number so far, in SQL; `$1` is another one that is in use.
        static let lastNumber = "greatest((SELECT last_value FROM change), $1::bigint)"

        /// Makes sure that the database has the tables of this version and belongs to this cluster.
        ///
        /// - Returns: the server; with another one, new epochs have begun.
        @discardableResult
        package func prepare(_ connection: PostgresConnection) throws(PostgresError) -> Server {
            let server = try server(of: connection)
            if try isCurrent(connection, server) { return server }
            defer { connection.rollBack() }
            var start = PostgresPipeline()
            // The connection may be one for reading.
            start.add("SET TRANSACTION READ WRITE")
            start.add("SELECT pg_advisory_xact_lock($1)", .int(Self.lock))
            _ = try connection.begin(start)
            // Another relay may have been first.
            if try isCurrent(connection, server) { return server }
            if try connection.query(Self.hasLayout).first?.bool(0) == true {
                try beginEpochs(connection, server)
            } else {
                try create(connection, server)
            }
            return server
        }

        private static let hasLayout = "SELECT to_regclass('zonecast_layout') IS NOT NULL"

        /// Returns whether nothing is to be done, and throws if this relay must not use the database.
        private func isCurrent(_ connection: PostgresConnection, _ server: Server) throws(PostgresError) -> Bool {
            guard try connection.query(Self.hasLayout).first?.bool(0) == true else {
                let others = try connection.query(
                    "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') LIMIT 1"
                )
                guard let table = others.first?.text(0) else {
                    if creates { return false }
                    throw PostgresError(
                        .noLayout,
                        "The database at \(connection.serverName) is empty: no relay has used it."
                    )
                }
                // Another relay may have created the tables between the two statements.
                if try connection.query(Self.hasLayout).first?.bool(0) == true {
                    return try isCurrent(connection, server)
                }
                throw PostgresError(
                    .foreignLayout,
                    "The database at \(connection.serverName) belongs to another program: it has a table named \(table)."
                )
            }
            let row = try connection.query("SELECT version, cluster, server, timeline, shard FROM zonecast_layout")
                .first
            guard let row else { throw PostgresError(.damaged, "The table zonecast_layout is empty.") }
            guard row.int(0) <= Self.version else {
                throw PostgresError(
                    .newerLayout,
                    "A later version of zonecast has changed the database at \(connection.serverName) (layout \(row.int(0)))."
                )
            }
            if let cluster, row.text(1) != cluster {
                throw PostgresError(
                    .otherCluster,
                    "The database at \(connection.serverName) belongs to the cluster '\(row.text(1))', and this relay to '\(cluster)'."
                )
            }
            guard row.int(4) == Int64(shard) else {
                throw PostgresError(
                    .otherCluster,
                    "The database at \(connection.serverName) is shard \(row.int(4)) of its cluster, not shard \(shard)."
                )
            }
            return server == Server(identifier: row.int(2), timeline: row.int(3))
        }

        /// Returns the name of the cluster to which a database with these tables belongs.
        package static func cluster(of connection: PostgresConnection) throws(PostgresError) -> String {
            try connection.query("SELECT cluster FROM zonecast_layout").first?.text(0) ?? ""
        }

        private func server(of connection: PostgresConnection) throws(PostgresError) -> Server {
            // The name of the current log file begins with the timeline; the control file has it only after a checkpoint.
            let row = try connection.query(
                "SELECT system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()"
            ).first
            guard let row, let timeline = Int64(row.text(1), radix: 16) else {
                throw PostgresError(.failed, "The server at \(connection.serverName) does not say its timeline.")
            }
            return Server(identifier: row.int(0), timeline: timeline)
        }

        private func create(_ connection: PostgresConnection, _ server: Server) throws(PostgresError) {
            let encoding = try connection.query("SHOW server_encoding").first?.text(0) ?? ""
            guard encoding == "UTF8" else {
                throw PostgresError(
                    .foreignEncoding,
                    "The database at \(connection.serverName) has the encoding \(encoding) instead of UTF8."
                )
            }
            var tables = PostgresPipeline()
            for statement in Self.tables { tables.add(statement) }
            tables.add(
                """
                INSERT INTO zonecast_layout (version, cluster, server, timeline, shard)
                VALUES ($1, coalesce($2, left(replace(gen_random_uuid()::text, '-', ''), 16)), $3, $4, $5)
                """,
                .int(Self.version),
                .text(cluster),
                .int(server.identifier),
                .int(server.timeline),
                .int(Int64(shard))
            )
            try connection.commit(tables)
        }

        /// Replaces all epochs by new ones, so that every earlier token is refused.
        static func renewEpochs(_ connection: PostgresConnection) throws(PostgresError) {
            var lock = PostgresPipeline()
            lock.add("LOCK TABLE owner IN EXCLUSIVE MODE")
            _ = try connection.begin(lock)
            var epochs = PostgresPipeline()
            epochs.add("DELETE FROM owner_epoch")
            addNewEpochs(to: &epochs)
            try connection.commit(epochs)
        }

        private static func addNewEpochs(to pipeline: inout PostgresPipeline) {
            // The same for all owners of a container, so that an export can say it for all of them.
            pipeline.add("UPDATE home SET epoch = ('x' || left(md5(gen_random_uuid()::text), 16))::bit(64)::bigint")
            pipeline.add(
                "UPDATE owner o SET epoch = h.epoch FROM person p JOIN home h ON h.id = p.home WHERE p.id = o.id"
            )
        }

        private func beginEpochs(_ connection: PostgresConnection, _ server: Server) throws(PostgresError) {
            var epochs = PostgresPipeline()
            // First, so that no write takes a number in between.
            epochs.add("LOCK TABLE owner IN EXCLUSIVE MODE")
            epochs.add("INSERT INTO owner_epoch (owner, epoch, last_change) SELECT id, epoch, last_change FROM owner")
            Self.addNewEpochs(to: &epochs)
            epochs.add(
                """
                SELECT setval('change', \(Self.ownNumber)) FROM (SELECT greatest((SELECT last_value FROM change), \
                (SELECT coalesce(max(last_change), 0) FROM owner)) + $1 AS n) g
                """,
                .int(Self.leap)
            )
            // A revocation may be lost too: no generation that a relay has seen may come again.
            epochs.add("UPDATE relay SET revocations = revocations + $1", .int(Self.leap))
            epochs.add(
                "UPDATE zonecast_layout SET server = $1, timeline = $2",
                .int(server.identifier),
                .int(server.timeline)
            )
            try connection.commit(epochs)
        }
    }

    extension PostgresLayout {
        /// The statements; a comment may have a semicolon.
        private static let tables =
            (general + records + schema + subscriptions + sharing + assets + indexes + nodes + control + shards)
            .split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("--") }.joined(separator: "\n")
            .split(separator: ";").map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }

        /// Owners and zones.
        ///
        /// The row of an owner is the lock of all that the owner has, and the numbers of changes are taken under it.
        private static let general = """
            CREATE TABLE zonecast_layout (
                version bigint NOT NULL,
                cluster text NOT NULL,
                server bigint NOT NULL,
                timeline bigint NOT NULL,
                -- which of the cluster's databases this is
                shard bigint NOT NULL
            );
            CREATE SEQUENCE change AS bigint;

            -- a container in one environment
            CREATE TABLE home (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                container text COLLATE "C" NOT NULL,
                environment text COLLATE "C" NOT NULL,
                schema_version bigint NOT NULL DEFAULT 0,
                subscriptions_version bigint NOT NULL DEFAULT 0,
                -- grows when an index of queries is made, complete or dropped
                indexes_version bigint NOT NULL DEFAULT 0,
                -- the epoch with which new owners begin
                epoch bigint NOT NULL,
                -- in shard 1: the greatest number of a shard, by which a process notices that there are more
                shards bigint NOT NULL DEFAULT 1,
                -- whether the data was exported, so that nothing may be read or written here any more
                moved boolean NOT NULL DEFAULT false,
                UNIQUE (container, environment)
            );
            CREATE TABLE person (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                UNIQUE (home, name)
            );
            CREATE TABLE owner (
                id bigint PRIMARY KEY,
                epoch bigint NOT NULL,
                last_change bigint NOT NULL DEFAULT 0,
                -- the number of outcomes that were kept in done_write
                done_writes bigint NOT NULL DEFAULT 0,
                -- 0 here, 1 moving away, 2 on the shard moved_to, 3 arriving
                state smallint NOT NULL DEFAULT 0,
                moved_to bigint,
                -- on shard 1, of one on another shard: whether a default zone is there, which makes the owner a user
                is_user boolean NOT NULL DEFAULT false,
                -- when the owner came here from another shard
                arrived timestamptz
            ) WITH (fillfactor = 50);
            CREATE INDEX owner_elsewhere ON owner (id) WHERE state = 2 AND is_user;
            -- the last change number of each epoch that has ended
            CREATE TABLE owner_epoch (
                owner bigint NOT NULL,
                epoch bigint NOT NULL,
                last_change bigint NOT NULL,
                PRIMARY KEY (owner, epoch)
            );
            -- the same for all owners of a container that came from a store with one epoch for all
            CREATE TABLE home_epoch (
                home bigint NOT NULL,
                epoch bigint NOT NULL,
                last_change bigint NOT NULL,
                PRIMARY KEY (home, epoch)
            );

            CREATE TABLE zone (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                owner bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                identity bigint NOT NULL,
                last_change bigint NOT NULL,
                record_bytes bigint NOT NULL DEFAULT 0,
                asset_bytes bigint NOT NULL DEFAULT 0,
                -- the latest modification time in the public database; 0 for every other zone
                last_modified bigint NOT NULL DEFAULT 0,
                -- the greatest number among removed tombstones
                horizon bigint NOT NULL DEFAULT 0,
                -- 0 nothing in it is shared, 1 all of it, 2 hierarchies
                shared bigint NOT NULL DEFAULT 0,
                deleted boolean NOT NULL DEFAULT false,
                -- whether the records of the deleted zone are gone
                purged boolean NOT NULL DEFAULT false,
                -- the change number with which it ended, and why
                ended bigint NOT NULL DEFAULT 0,
                loss bigint NOT NULL DEFAULT 0
            ) WITH (fillfactor = 50);
            CREATE UNIQUE INDEX zone_by_name ON zone (owner, name) WHERE NOT deleted;
            CREATE INDEX zone_by_end ON zone (owner, ended) WHERE deleted;
            CREATE INDEX zone_by_identity ON zone (identity) WHERE deleted;
            CREATE INDEX zone_to_purge ON zone (id) WHERE deleted AND NOT purged;
            CREATE INDEX zone_of_user ON zone (home) WHERE name = '_defaultZone' AND NOT deleted;

            """

        private static let records = """
            CREATE TABLE record (
                zone bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                change bigint NOT NULL,
                type bigint NOT NULL,
                deleted boolean NOT NULL,
                created_at bigint NOT NULL,
                created_by bigint NOT NULL,
                created_device bigint NOT NULL,
                modified_at bigint NOT NULL,
                modified_by bigint NOT NULL,
                modified_device bigint NOT NULL,
                parent text COLLATE "C",
                share text COLLATE "C",
                fields bytea NOT NULL,
                PRIMARY KEY (zone, name)
            ) WITH (fillfactor = 85);
            CREATE INDEX record_live ON record (zone, change) WHERE NOT deleted;
            CREATE INDEX record_dead ON record (zone, change) WHERE deleted;
            CREATE INDEX record_forgettable ON record (modified_at) WHERE deleted;

            -- The references that affect the deletion of their targets: 1 DELETE_SELF, 2 VALIDATE, 3 parent.
            CREATE TABLE reference (
                zone bigint NOT NULL,
                target text COLLATE "C" NOT NULL,
                kind bigint NOT NULL,
                source text COLLATE "C" NOT NULL,
                field text COLLATE "C" NOT NULL,
                PRIMARY KEY (zone, target, kind, source, field)
            );
            -- the bytes that the public database sent in each month, as years times twelve
            CREATE TABLE transfer (
                home bigint NOT NULL,
                month bigint NOT NULL,
                bytes bigint NOT NULL,
                PRIMARY KEY (home, month)
            );
            CREATE TABLE done_write (
                owner bigint NOT NULL,
                person bigint NOT NULL,
                id text COLLATE "C" NOT NULL,
                print bigint NOT NULL,
                places bytea NOT NULL,
                -- its place among the outcomes of its owner, of which the latest are kept
                place bigint NOT NULL,
                at timestamptz NOT NULL DEFAULT now(),
                PRIMARY KEY (owner, person, id)
            );
            CREATE INDEX done_write_by_place ON done_write (owner, place);
            CREATE INDEX done_write_by_age ON done_write (at);
            CREATE TABLE signed_write (
                owner bigint NOT NULL,
                signed_at bigint NOT NULL,
                fingerprint bytea NOT NULL,
                PRIMARY KEY (owner, signed_at, fingerprint)
            );

            """

        /// The schema, as the schema language has it.
        private static let schema = """
            CREATE TABLE record_type (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                -- whether it is in the schema, or only the type of records from before it was taken out
                declared boolean NOT NULL DEFAULT false,
                UNIQUE (home, name)
            );
            CREATE TABLE record_field (
                type bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                tag text COLLATE "C" NOT NULL,
                encrypted boolean NOT NULL,
                -- of a field that every record has, only the indexes count
                indexes bigint NOT NULL,
                -- 0 no NUMBER, 1 one that is open, 2 one that is settled
                number bigint NOT NULL,
                PRIMARY KEY (type, name)
            );
            -- the latest definition of each field that was removed from the schema
            CREATE TABLE retired_field (
                type bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                tag text COLLATE "C" NOT NULL,
                encrypted boolean NOT NULL,
                number bigint NOT NULL,
                PRIMARY KEY (type, name)
            );
            CREATE TABLE record_grant (
                type bigint NOT NULL,
                role text COLLATE "C" NOT NULL,
                rights bigint NOT NULL,
                PRIMARY KEY (type, role)
            );
            CREATE TABLE role (home bigint NOT NULL, name text COLLATE "C" NOT NULL, PRIMARY KEY (home, name));
            CREATE TABLE role_member (
                home bigint NOT NULL,
                person text COLLATE "C" NOT NULL,
                role text COLLATE "C" NOT NULL,
                PRIMARY KEY (home, person, role)
            );

            """

        private static let subscriptions = """
            CREATE TABLE subscription (
                person bigint NOT NULL,
                scope bigint NOT NULL,
                id text COLLATE "C" NOT NULL,
                home bigint NOT NULL,
                -- 1 database, 2 every zone, 3 one zone, 4 a query
                kind bigint NOT NULL,
                zone_owner text COLLATE "C",
                zone_name text COLLATE "C",
                notification_info bytea,
                record_type text COLLATE "C",
                -- the query as the client wrote it
                query bytea,
                -- the bits of the events that the query fires on; the bit 8 means "once"
                fires bigint NOT NULL,
                PRIMARY KEY (person, scope, id)
            );
            CREATE INDEX subscription_to_query ON subscription (home) WHERE kind = 4;

            """

        private static let sharing = """
            CREATE TABLE share (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                zone bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                -- NULL: the whole zone
                root text COLLATE "C",
                guid text COLLATE "C" NOT NULL,
                public_permission bigint NOT NULL,
                -- of a hierarchy: the greatest number among its entries
                last_change bigint NOT NULL DEFAULT 0,
                allows_requests boolean NOT NULL DEFAULT false,
                has_aliases boolean NOT NULL DEFAULT false,
                -- the greatest number among removed entries that were gone
                horizon bigint NOT NULL DEFAULT 0,
                UNIQUE (zone, name),
                UNIQUE (home, guid)
            );
            CREATE INDEX share_with_aliases ON share (zone) WHERE has_aliases;
            CREATE TABLE participant (
                share bigint NOT NULL,
                id text COLLATE "C" NOT NULL,
                place bigint NOT NULL,
                role bigint NOT NULL,
                permission bigint NOT NULL,
                accepted boolean NOT NULL,
                person bigint,
                email text COLLATE "C",
                phone text COLLATE "C",
                has_asked boolean NOT NULL,
                added bigint,
                PRIMARY KEY (share, id)
            );
            CREATE INDEX participant_by_person ON participant (person) WHERE person IS NOT NULL;
            CREATE INDEX participant_by_email ON participant (email) WHERE email IS NOT NULL AND person IS NULL;
            CREATE INDEX participant_by_phone ON participant (phone) WHERE phone IS NOT NULL AND person IS NULL;
            -- requests for access to shares, and blocked users
            CREATE TABLE share_request (
                share bigint NOT NULL,
                person bigint NOT NULL,
                place bigint NOT NULL,
                blocked boolean NOT NULL,
                PRIMARY KEY (share, person)
            );
            -- names that participants chose for records, while the zone used them for records that they cannot see
            CREATE TABLE share_alias (
                share bigint NOT NULL,
                shown text COLLATE "C" NOT NULL,
                kept text COLLATE "C" NOT NULL,
                PRIMARY KEY (share, shown)
            );
            CREATE INDEX share_alias_by_kept ON share_alias (share, kept);
            -- what users have been given, or had: the log of their shared databases
            CREATE TABLE shared_zone (
                person bigint NOT NULL,
                zone bigint NOT NULL,
                identity bigint NOT NULL,
                change bigint NOT NULL,
                ended boolean NOT NULL,
                PRIMARY KEY (person, zone)
            );
            CREATE INDEX shared_zone_by_zone ON shared_zone (zone, person) WHERE NOT ended;
            -- the records of each shared hierarchy, at their places in its feed; those that have left it stay as gone
            CREATE TABLE share_entry (
                share bigint NOT NULL,
                name text COLLATE "C" NOT NULL,
                zone bigint NOT NULL,
                change bigint NOT NULL,
                gone bigint NOT NULL,
                -- the record's own number, where it came with one above it and stands elsewhere in the feed
                record bigint,
                -- of one that is gone: its type when it was seen last
                type bigint,
                PRIMARY KEY (share, name)
            );
            CREATE INDEX share_entry_by_name ON share_entry (zone, name) WHERE gone = 0;
            CREATE INDEX share_entry_by_change ON share_entry (share, change);

            """

        private static let assets = """
            CREATE TABLE asset_use (
                zone bigint NOT NULL,
                hash bytea NOT NULL,
                name text COLLATE "C" NOT NULL,
                size bigint NOT NULL,
                PRIMARY KEY (zone, hash, name)
            );
            CREATE INDEX asset_use_by_hash ON asset_use (hash);
            -- What is stored. Equal content has one row, whatever number of uploads it had.
            CREATE TABLE asset (
                home bigint NOT NULL,
                hash bytea NOT NULL,
                size bigint NOT NULL,
                content bigint NOT NULL,
                touched_at timestamptz NOT NULL DEFAULT now(),
                -- whether the content is an object in other storage, and not in asset_chunk
                is_object boolean NOT NULL DEFAULT false,
                PRIMARY KEY (home, hash)
            );
            -- Contents of objects that no asset has: of uploads that have not ended, and of assets that were removed.
            CREATE TABLE asset_garbage (content bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
            CREATE INDEX asset_by_age ON asset (home, touched_at);
            CREATE SEQUENCE asset_content AS bigint;
            -- the pieces of a content, in the order of their numbers; also of one that is still being uploaded
            CREATE TABLE asset_chunk (
                content bigint NOT NULL,
                n bigint NOT NULL,
                bytes bytea NOT NULL,
                PRIMARY KEY (content, n)
            );
            -- Uploads that have not ended. Another relay may continue one by its key.
            CREATE TABLE asset_upload (
                content bigint PRIMARY KEY,
                home bigint NOT NULL,
                -- drawn by the relay that receives it
                holder bigint NOT NULL,
                key text COLLATE "C",
                size bigint NOT NULL,
                chunks bigint NOT NULL,
                touched_at timestamptz NOT NULL DEFAULT now(),
                UNIQUE (home, key)
            );
            CREATE INDEX asset_upload_by_age ON asset_upload (touched_at);
            -- Uploads that no record uses yet, or that are being stored: then without a hash. They count towards the quota
            -- of the owner until a time in milliseconds since 1970, and are forgotten after a crash of the server.
            CREATE UNLOGGED TABLE asset_pending (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                owner text COLLATE "C" NOT NULL,
                hash bytea,
                size bigint NOT NULL,
                began bigint NOT NULL,
                ends bigint NOT NULL,
                UNIQUE (home, owner, hash)
            );
            CREATE INDEX asset_pending_by_end ON asset_pending (ends);
            ALTER TABLE asset_chunk ALTER bytes SET STORAGE EXTERNAL;

            """

        /// The indexes that queries have needed.
        private static let indexes = """
            CREATE TABLE field_index (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                home bigint NOT NULL,
                type bigint NOT NULL,
                target text COLLATE "C" NOT NULL,
                -- the zone, and the change in it, up to which records have been entered
                built_zone bigint NOT NULL DEFAULT 0,
                built_change bigint NOT NULL DEFAULT 0,
                is_ready boolean NOT NULL DEFAULT false,
                -- records after this change are entered as they are written
                goal bigint NOT NULL,
                dropped boolean NOT NULL DEFAULT false
            );
            CREATE UNIQUE INDEX field_index_by_target ON field_index (home, type, target) WHERE NOT dropped;
            -- the values are keys in the order of their bytes
            CREATE TABLE field_value (
                field bigint NOT NULL,
                zone bigint NOT NULL,
                value bytea NOT NULL,
                name text COLLATE "C" NOT NULL,
                PRIMARY KEY (field, zone, value, name)
            );

            """
    }
#endif
