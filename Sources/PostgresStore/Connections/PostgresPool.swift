#if Postgres
    import Foundation

    /// The connections of one process to one database.
    ///
    /// Lends each to one thread at a time and connects when a thread needs one, so nothing is open until then.
    // Unchecked: all mutable state is guarded by `condition`, which is a lock.
    package final class PostgresPool: @unchecked Sendable {
        /// How many connections there may be, and how long a thread waits for one.
        package struct Limits: Sendable {
            package var reading = 16
            package var writing = 8
            package var brief = 4
            package var wait = Duration.seconds(10)

            package init() {}
        }

        private struct Group {
            var idle: [PostgresConnection] = []
            var lent: [PostgresConnection] = []
            /// Idle and lent ones, and those that are being made.
            var count = 0
        }

        package let address: PostgresAddress
        package let limits: Limits
        private let timeouts: PostgresConnection.Timeouts
        private let prepare: @Sendable (PostgresConnection) throws(PostgresError) -> Void
        private let condition = NSCondition()
        private var groups: [PostgresConnection.Purpose: Group] = [:]
        private var isClosed = false

        /// - Parameters:
        ///   - address: the database.
        ///   - limits: how many connections there may be.
        ///   - timeouts: those of each connection.
        ///   - prepare: called with each new connection before its first use.
        package init(
            _ address: PostgresAddress,
            limits: Limits = Limits(),
            timeouts: PostgresConnection.Timeouts = .init(),
            prepare: @escaping @Sendable (PostgresConnection) throws(PostgresError) -> Void = { _ in }
        ) {
            self.address = address
            self.limits = limits
            self.timeouts = timeouts
            self.prepare = prepare
        }

        /// Runs `body` with a connection, on the caller's thread; waits for one if all are in use.
        ///
        /// A transaction that is still open at the end is rolled back.
        package func use<Result>(
            _ purpose: PostgresConnection.Purpose,
            _ body: (PostgresConnection) throws(PostgresError) -> Result
        ) throws(PostgresError) -> Result {
            let connection = try take(purpose)
            defer { put(back: connection, purpose) }
            return try body(connection)
        }

        /// Takes a connection, which the caller must put back.
        package func take(_ purpose: PostgresConnection.Purpose) throws(PostgresError) -> PostgresConnection {
            if let idle = try reserve(purpose) { return idle }
            do throws(PostgresError) {
                let connection = try PostgresConnection(to: address, for: purpose, timeouts: timeouts)
                try prepare(connection)
                condition.withLock { groups[purpose, default: Group()].lent.append(connection) }
                return connection
            } catch {
                release(purpose)
                throw error
            }
        }

        /// Puts a connection back, or closes it if it is broken; the others that are idle too then, since they hardly work.
        package func put(back connection: PostgresConnection, _ purpose: PostgresConnection.Purpose) {
            connection.rollBack()
            connection.endLimit()
            condition.withLock { groups[purpose, default: Group()].lent.removeAll { $0 === connection } }
            guard connection.isBroken else {
                condition.withLock {
                    if isClosed {
                        groups[purpose, default: Group()].count -= 1
                    } else {
                        groups[purpose, default: Group()].idle.append(connection)
                    }
                    condition.broadcast()
                }
                return
            }
            let useless = condition.withLock {
                let idle = groups.values.flatMap(\.idle)
                groups = groups.mapValues { Group(lent: $0.lent, count: $0.count - $0.idle.count) }
                return idle
            }
            // Closed outside of the lock, since that sends a message.
            _ = useless
            release(purpose)
        }

        /// Gives all connections up: a server that stands still answers none of them, and does not close them either.
        package func cutAll() {
            let all = condition.withLock { groups.values.flatMap { $0.idle + $0.lent } }
            for connection in all { connection.cut() }
        }

        /// Closes all idle connections, and each lent one when it is put back.
        package func close() {
            let idle = condition.withLock {
                isClosed = true
                let idle = groups.values.flatMap(\.idle)
                groups = groups.mapValues { Group(lent: $0.lent, count: $0.count - $0.idle.count) }
                condition.broadcast()
                return idle
            }
            _ = idle
        }

        /// - Returns: an idle connection; `nil` if the caller has to make one.
        private func reserve(_ purpose: PostgresConnection.Purpose) throws(PostgresError) -> PostgresConnection? {
            let most =
                switch purpose {
                case .reading: limits.reading
                case .writing: limits.writing
                case .brief: limits.brief
                }
            let deadline = Date(timeIntervalSinceNow: limits.wait / .seconds(1))
            condition.lock()
            defer { condition.unlock() }
            while !isClosed {
                if let idle = groups[purpose, default: Group()].idle.popLast() {
                    guard idle.hasVanished() else {
                        groups[purpose, default: Group()].lent.append(idle)
                        return idle
                    }
                    groups[purpose, default: Group()].count -= 1
                    continue
                }
                if groups[purpose, default: Group()].count < most {
                    groups[purpose, default: Group()].count += 1
                    return nil
                }
                guard condition.wait(until: deadline) else {
                    throw PostgresError(
                        .busy,
                        "All \(most) connections to \(address) have been in use for \(limits.wait)."
                    )
                }
            }
            throw PostgresError(.busy, "The connections to \(address) are closed.")
        }

        private func release(_ purpose: PostgresConnection.Purpose) {
            condition.withLock {
                groups[purpose]?.count -= 1
                condition.broadcast()
            }
        }
    }
#endif
