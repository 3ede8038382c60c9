#if Postgres
    package import Records
    import RelayCore
    import StoreKit

    /// What a transaction sees of a container besides its rows of users.
    package struct PostgresState: Sendable {
        package var schema: Schema { didSet { assetTypes = schema.assetTypes } }
        package var subscriptionsVersion: UInt64
        /// Grows when an index of queries is made, complete or dropped.
        package var indexesVersion: UInt64
        /// The types that have asset fields.
        private(set) var assetTypes: Set<String>

        init(schema: Schema, subscriptionsVersion: UInt64, indexesVersion: UInt64) {
            self.schema = schema
            self.subscriptionsVersion = subscriptionsVersion
            self.indexesVersion = indexesVersion
            assetTypes = schema.assetTypes
        }
    }

    /// The versions of a container's row, by which a process notices what it has to read again.
    struct HomeVersions: Hashable, Sendable {
        static let select = """
            SELECT schema_version, subscriptions_version, indexes_version, shards, moved FROM home WHERE id = $1
            """

        /// The greatest number of a shard, as shard 1 says.
        var shards: Int
        var schema: Int
        var subscriptions: UInt64
        var indexes: UInt64

        /// - Throws: `notWritable` if the container was deleted or replaced.
        init(_ rows: PostgresRows) throws(PostgresError) {
            guard let row = rows.first else {
                throw PostgresError(.notWritable, "The container is being deleted or replaced.")
            }
            guard !row.bool(4) else {
                throw PostgresError(.notWritable, "The data was exported to a folder: zonecast cluster export.")
            }
            (schema, subscriptions, indexes) = (Int(row.int(0)), row.unsigned(1), row.unsigned(2))
            shards = Int(row.int(3))
        }
    }
#endif
