#if Postgres
    package import RelayCore
    package import Records
    import StoreKit

    /// Devices that push services notify.
    extension PostgresAccounts {
        package func addPushDevice(_ device: PushDevice, limit: Int) throws(DirectoryError) -> [String] {
            let columns = PushTargetColumns(device.target)
            let user: [PostgresValue] = [
                .text(device.home.container.name), .text(device.home.environment.rawValue),
                .text(device.user.recordName),
            ]
            let place = user + [.text(device.deviceID)]
            return try write { connection in
                // One registration of a user at a time, so that the limit holds.
                try connection.query(
                    "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2 || ' ' || $3, 0))",
                    user
                )
                let removed = try connection.query(
                    """
                    DELETE FROM push_device WHERE id IN (
                        (SELECT id FROM push_device WHERE container = $1 AND environment = $2 AND user_name = $3
                            AND device <> $4 ORDER BY registered DESC, id OFFSET $5)
                        UNION ALL SELECT id FROM push_device WHERE container = $1 AND environment = $2
                            AND user_name = $3 AND device = $4
                    ) RETURNING id
                    """,
                    place + [.int(Int64(max(limit - 1, 0)))]
                ).map { $0.text(0) }
                try connection.query(
                    """
                    INSERT INTO push_device (container, environment, user_name, device, id, session, api_token, kind,
                    address, topic, sandbox, key, secret, registered, fault)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                    """,
                    place + [
                        .text(device.id), .bytes(device.session?.bytes), .bytes(device.apiTokenHash),
                        .text(columns.kind), .text(columns.address), .text(columns.topic), .bool(columns.isSandbox),
                        .bytes(columns.key), .bytes(columns.secret), .int(device.registered.milliseconds),
                        .text(device.lastFault),
                    ]
                )
                return removed
            }
        }

        package func removePushDevices(_ ids: [String]) throws(DirectoryError) {
            guard !ids.isEmpty else { return }
            try write { connection in
                try connection.query("DELETE FROM push_device WHERE id = ANY($1)", .texts(ids))
            }
        }

        package func notePushFault(_ fault: String?, of id: String) throws(DirectoryError) {
            try write { connection in
                try connection.query("UPDATE push_device SET fault = $1 WHERE id = $2", .text(fault), .text(id))
            }
        }

        private static let devices = """
            SELECT id, container, environment, user_name, device, session, api_token, kind, address, topic,
            sandbox, key, secret, registered, fault FROM push_device
            """

        package func pushDevices() throws(DirectoryError) -> [PushDevice] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.devices) ORDER BY registered, id").compactMap(Self.pushDevice)
            }
        }

        package func pushDevices(
            of user: UserID,
            in home: ContainerEnvironment
        ) throws(DirectoryError) -> [PushDevice] {
            try read { connection throws(PostgresError) in
                try connection.query(
                    "\(Self.devices) WHERE container = $1 AND environment = $2 AND user_name = $3 ORDER BY registered, id",
                    .text(home.container.name),
                    .text(home.environment.rawValue),
                    .text(user.recordName)
                ).compactMap(Self.pushDevice)
            }
        }

        private static func pushDevice(_ row: PostgresRow) -> PushDevice? {
            let columns = PushTargetColumns(
                kind: row.text(7),
                address: row.text(8),
                topic: row.optionalText(9),
                isSandbox: row.bool(10),
                key: row.optionalBytes(11),
                secret: row.optionalBytes(12)
            )
            guard let home = row.home(1), let target = columns.target else { return nil }
            return PushDevice(
                id: row.text(0),
                home: home,
                user: UserID(row.text(3)),
                deviceID: row.text(4),
                session: row.optionalBytes(5).map { Session.ID($0) },
                apiTokenHash: row.bytes(6),
                target: target,
                registered: row.timestamp(13),
                lastFault: row.optionalText(14)
            )
        }
    }
#endif
