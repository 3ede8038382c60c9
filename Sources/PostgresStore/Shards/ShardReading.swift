#if Postgres
    import Foundation
    import Records
    import RelayCore
    import StoreKit

    /// One read of a container that is spread over shards: begins a transaction on each shard when it is needed.
    final class ShardReading: ShardReaders {
        private let store: ShardedStore
        private let work: QueryWork
        /// Guards `open`: several shards are opened at once.
        private let lock = NSLock()
        private var open: [Int: PostgresStore.OpenReading] = [:]
        /// The shards that have confirmed that they have an owner's data.
        private var confirmed: [UserID: Int] = [:]

        init(_ store: ShardedStore, work: QueryWork) {
            self.store = store
            self.work = work
        }

        /// Ends all transactions, and adds to `work` what queries have cost.
        func end(_ work: inout QueryWork) {
            for (number, reading) in open {
                work.add(reading.reader.queryWork)
                store.note(missing: reading.reader.queryWork.missing, on: number)
                reading.end()
            }
            open = [:]
        }

        func postgresReader(_ number: Int) throws(RelayError) -> PostgresReader {
            if let known = lock.withLock({ open[number] }) { return known.reader }
            do throws(PostgresError) {
                let work = work.fresh
                let (shards, shard) = (store.shards, try store.shards.shard(number))
                let reading = try shards.use(shard) { () throws(PostgresError) in
                    try store.store(number).beginReading(work)
                }
                if number != 1 {
                    // One that stands still holds up what the other shards answer.
                    reading.reader.transaction.connection.limitAnswers(to: shards.patience)
                    reading.reader.onFailure = { shards.note($0, of: shard) }
                }
                lock.withLock { open[number] = reading }
                return reading.reader
            } catch {
                throw error.relayError
            }
        }

        // MARK: ShardReaders

        var schema: Schema {
            get throws(RelayError) {
                // With the transaction that is open anyway, if there is one.
                if let control = lock.withLock({ open[1] }) { return try control.reader.schema }
                return store.currentSchema
            }
        }

        func numbers(of shards: ShardSelection) throws(RelayError) -> [Int] {
            switch shards {
            case .all: return store.shards.all.map(\.number)
            case .visited(let user):
                let control = try postgresReader(1)
                let visited = try control.attempt {
                    try control.transaction.query(
                        """
                        SELECT v.shard FROM person p JOIN visitor_shard v ON v.person = p.id
                        WHERE p.home = $1 AND p.name = $2 ORDER BY v.shard
                        """,
                        .int(control.home.number),
                        .text(user.recordName)
                    ).map { Int($0.int(0)) }
                }
                return [1] + visited.filter { $0 != 1 }
            }
        }

        func reader(ofShard number: Int) throws(RelayError) -> any StoreReader { try postgresReader(number) }

        func reader(of owner: UserID) throws(RelayError) -> any StoreReader {
            if owner == Zone.publicOwner { return try postgresReader(1) }
            if let number = confirmed[owner] { return try postgresReader(number) }
            for _ in 0..<3 {
                let number = try number(of: owner)
                let reader = try postgresReader(number)
                var place = try reader.place(of: owner)
                if PostgresFault.oldMapServed.isPlanted { place = .here }
                switch place {
                case .here:
                    confirmed[owner] = number
                    return reader
                case .moving:
                    // The other shard may have them already.
                    store.forget(owner)
                    guard try self.number(of: owner) == number else { continue }
                    confirmed[owner] = number
                    return reader
                case .moved, .arriving:
                    store.forget(owner)
                    // What this access sees of the shard does not change.
                    if try self.number(of: owner) == number { throw .ownerIsMoving }
                }
            }
            throw .ownerIsMoving
        }

        private func number(of owner: UserID) throws(RelayError) -> Int {
            do throws(PostgresError) { return try store.shard(of: owner) } catch { throw error.relayError }
        }

        func concurrently(_ count: Int, _ body: (Int) -> Void) { store.shards.threads.concurrently(count, body) }

        func noteMissing(_ shards: [Int], for user: UserID?) {
            if let user { store.note(missing: shards, for: user) }
        }
    }

    extension PostgresReader {
        /// Returns where an owner's data is, as this database says; an owner of whom it knows nothing may begin here.
        func place(of owner: UserID) throws(RelayError) -> OwnerPlace {
            try attempt {
                let row = try transaction.query(
                    """
                    SELECT \(OwnerPlace.columns) FROM person p JOIN owner o ON o.id = p.id WHERE p.home = $1 AND p.name = $2
                    """,
                    .int(home.number),
                    .text(owner.recordName)
                ).first
                return row.map { OwnerPlace(state: $0.int(0), movedTo: $0.optionalInt(1)) } ?? .here
            }
        }
    }
#endif
