#if Postgres
    import Records
    import RelayCore

    /// A container's schemas in a database, for the console and for commands that run beside relays.
    struct PostgresSchemas: ContainerSchemas {
        let shards: PostgresShards
        let container: ContainerID
        /// Returns 64 random bits.
        let draw: @Sendable () -> UInt64

        private var database: PostgresDatabase { shards.control.database }

        func schema(of environment: Environment) throws -> Schema {
            try converting {
                try database.pool.use(.reading) { connection throws(PostgresError) in
                    guard let home = try HomeRow.find(ContainerEnvironment(container, environment), connection) else {
                        return Schema()
                    }
                    // One state for all its statements.
                    try connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    return try PostgresSchemaRows(PostgresTransaction(on: connection, of: home)).read()
                }
            }
        }

        func change<Result>(
            _ environment: Environment,
            _ body: (Schema) throws -> (schema: Schema?, Result)
        ) throws -> Result {
            // After the commit.
            defer { PostgresSchemaRows.noteChange() }
            let (result, old, new) = try changeFirst(environment, body)
            if let new { try? bringOthers(environment, from: old, to: new) }
            return result
        }

        /// Brings the other shards up to a new schema; one that cannot be reached gets it when a relay reaches it again.
        private func bringOthers(
            _ environment: Environment,
            from old: Schema,
            to new: Schema
        ) throws(PostgresError) {
            let home = ContainerEnvironment(container, environment)
            for shard in try shards.refresh() where shard.number != 1 {
                try? shards.use(shard) { () throws(PostgresError) in
                    try ShardVersions(schema: new, subscriptions: 0).apply(to: home, over: old, in: shard.database)
                }
            }
        }

        private func changeFirst<Result>(
            _ environment: Environment,
            _ body: (Schema) throws -> (schema: Schema?, Result)
        ) throws -> (Result, old: Schema, new: Schema?) {
            try converting {
                let connection = try database.pool.take(.writing)
                defer { database.pool.put(back: connection, .writing) }
                let home = try HomeRow.ensure(ContainerEnvironment(container, environment), draw: draw, connection)
                var start = PostgresPipeline()
                start.add("SELECT pg_advisory_xact_lock($1)", .int(home.schemaLock))
                _ = try connection.begin(start)
                let transaction = PostgresTransaction(on: connection, of: home)
                // Throws if the environment was removed before the lock was taken.
                _ = try HomeVersions(try transaction.query(HomeVersions.select, .int(home.number)))
                let rows = PostgresSchemaRows(transaction)
                let old = try rows.read()
                var (new, result) = try body(old)
                if let new { try rows.replace(old, by: new) }
                new?.version = old.version + 1
                try connection.commit(transaction.takeWaiting())
                return (result, old, new)
            }
        }

        func resetDevelopment(draw: () -> UInt64) throws {
            let production = try schema(of: .production)
            let home = ContainerEnvironment(container, .development)
            let version = try schema(of: .development).version
            // The first one last: if this process ends before, the reset can be repeated.
            let databases = try converting { try shards.refresh().reversed().map(\.database) }
            for database in databases { try remove(home, from: database) }
            // Relays find the environment's new number with their next read or write. If this process ends here, the
            // schema is missing, and another reset brings it.
            try change(.development) { _ in
                var copy = production
                copy.members = [:]
                copy.version = version
                return (copy, ())
            }
        }

        private func remove(_ home: ContainerEnvironment, from database: PostgresDatabase) throws {
            try converting {
                let connection = try database.pool.take(.writing)
                defer { database.pool.put(back: connection, .writing) }
                _ = try connection.begin(PostgresPipeline())
                guard let content = try HomeContent(home, connection) else { return connection.rollBack() }
                try content.remove(connection)
                try connection.commit()
            }
        }

        /// Runs `body`, and converts PostgreSQL's errors alone: others are the caller's.
        private func converting<Value>(_ body: () throws -> Value) throws -> Value {
            do { return try body() } catch let error as PostgresError { throw DirectoryError(error) }
        }
    }
#endif
