#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    /// Names an outcome among those of its owner.
    struct OutcomeKey: Hashable {
        var owner: UserID
        var user: UserID
        var id: String
    }

    /// The outcomes of writes with idempotency keys, and the signatures that were used.
    ///
    /// Both belong to the owner of the write, under whose lock they are read and written.
    extension PostgresWriter {
        package func idempotencyRecord(_ id: String, by user: UserID) throws(RelayError) -> IdempotencyRecord? {
            try attempt {
                let (owner, number) = try lockedOwner()
                let key = OutcomeKey(owner: owner, user: user, id: id)
                if let known = knownOutcomes[key] { return known }
                guard let person = try transaction.number(of: user) else { return nil }
                let row = try transaction.query(
                    "SELECT print, places FROM done_write WHERE owner = $1 AND person = $2 AND id = $3",
                    .int(number),
                    .int(person),
                    .text(id)
                ).first
                let found = row.map { IdempotencyRecord(fingerprint: $0.unsigned(0), completedOperations: $0.bytes(1)) }
                knownOutcomes.updateValue(found, forKey: key)
                return found
            }
        }

        package func keep(_ done: IdempotencyRecord, as id: String, by user: UserID) throws(RelayError) {
            try attempt {
                let (owner, number) = try lockedOwner()
                owners[owner]?.doneWrites += 1
                owners[owner]?.hasKeptOutcomes = true
                knownOutcomes.updateValue(done, forKey: OutcomeKey(owner: owner, user: user, id: id))
                transaction.later(
                    """
                    INSERT INTO done_write (owner, person, id, print, places, place) VALUES ($1, $2, $3, $4, $5, $6)
                    ON CONFLICT (owner, person, id) DO UPDATE SET print = excluded.print, places = excluded.places,
                        place = excluded.place, at = excluded.at
                    """,
                    .int(number),
                    .int(try transaction.ensureNumber(of: user)),
                    .text(id),
                    .unsigned(done.fingerprint),
                    .bytes(done.completedOperations),
                    .int(owners[owner]?.doneWrites ?? 0)
                )
            }
        }

        package func keep(_ signature: UsedSignature) throws(RelayError) -> Bool {
            try attempt {
                let (_, number) = try lockedOwner()
                // Removes two expired rows for each row that is added, so that no write removes many.
                transaction.later(
                    """
                    DELETE FROM signed_write WHERE (owner, signed_at, fingerprint) IN (
                        SELECT owner, signed_at, fingerprint FROM signed_write
                        WHERE owner = $1 AND signed_at < $2 ORDER BY signed_at LIMIT 2)
                    """,
                    .int(number),
                    .int(signature.oldest.milliseconds)
                )
                return try transaction.query(
                    """
                    INSERT INTO signed_write (owner, signed_at, fingerprint) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
                    """,
                    .int(number),
                    .int(signature.signed.milliseconds),
                    .bytes(withUnsafeBytes(of: signature.fingerprint.bigEndian) { Array($0) })
                ).changed > 0
            }
        }

        /// Returns the owner of the write that runs, and the number of its locked row.
        private func lockedOwner() throws -> (UserID, Int64) {
            guard let owner, let locked = owners[owner] else { throw PostgresError.missing("an owner") }
            return (owner, locked.number)
        }
    }

    // MARK: Subscriptions

    extension PostgresWriter {
        package func put(
            _ subscriptions: [Subscription],
            of user: UserID,
            in scope: DatabaseScope
        ) throws(RelayError) {
            try requireOwner(user)
            try requireControl()
            try attempt {
                let number = try transaction.ensureNumber(of: user)
                for subscription in subscriptions {
                    let columns = SubscriptionColumns(subscription)
                    transaction.later(
                        """
                        INSERT INTO subscription (person, scope, id, home, kind, zone_owner, zone_name, notification_info,
                            record_type, query, fires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                        ON CONFLICT (person, scope, id) DO UPDATE SET kind = excluded.kind, zone_owner = excluded.zone_owner,
                            zone_name = excluded.zone_name, notification_info = excluded.notification_info,
                            record_type = excluded.record_type, query = excluded.query, fires = excluded.fires
                        """,
                        .int(number),
                        .int(Int64(scope.rawValue)),
                        .text(columns.id),
                        .int(home.number),
                        .int(columns.kind),
                        .text(columns.zoneOwner),
                        .text(columns.zoneName),
                        .bytes(columns.notificationInfo),
                        .text(columns.recordType),
                        .bytes(columns.query),
                        .int(columns.fires)
                    )
                    // A type that is no longer watched stays among them until the next transaction.
                    if let type = subscription.query?.recordType { known.watchedTypes.insert(type) }
                    changedSubscriptions.append(
                        .init(user: user, scope: scope, id: subscription.id, subscription: subscription)
                    )
                }
            }
        }

        package func deleteSubscriptions(
            ids: [String],
            of user: UserID,
            in scope: DatabaseScope
        ) throws(RelayError) {
            try requireOwner(user)
            try requireControl()
            try attempt {
                guard let number = try transaction.number(of: user) else { return }
                transaction.later(
                    "DELETE FROM subscription WHERE person = $1 AND scope = $2 AND id = ANY($3)",
                    .int(number),
                    .int(Int64(scope.rawValue)),
                    .texts(ids)
                )
                for id in ids {
                    changedSubscriptions.append(.init(user: user, scope: scope, id: id, subscription: nil))
                }
            }
        }
    }
#endif
