#if Postgres
    package import Records
    import RelayCore
    package import StoreKit

    /// The row of a container in one environment, and the rows that it always has.
    package struct HomeRow: Hashable, Sendable {
        /// The number of the row in `home`.
        package var number: Int64
        /// The public database's owner, a row in `person`.
        package var publicOwner: Int64
        /// The public database's zone.
        package var publicZone: Int64
    }

    /// A transaction on the rows of one container in one environment.
    ///
    /// All code that reads or writes rows works through it. Statements that return nothing wait for the next one that
    /// does, or for the commit, and are sent with it: a round trip costs more than most statements.
    package final class PostgresTransaction {
        package let connection: PostgresConnection
        package let home: HomeRow
        /// The known numbers of users and record types.
        package private(set) var names: StoreNames
        private var waiting: PostgresPipeline
        /// Adds the statements that its owner has deferred, before any other statement is sent.
        var beforeSending: (inout PostgresPipeline) -> Void = { _ in }
        /// The number of statements that open the transaction, and their rows once they have run.
        private let openingCount: Int
        private(set) var openingRows: [PostgresRows] = []
        /// Throws if what the opening statements returned forbids the transaction.
        var checkOpening: ([PostgresRows]) throws(PostgresError) -> Void = { _ throws(PostgresError) in }
        private let insertNames: NameInsertion
        /// The other databases of the container, if there are any.
        var peers: ShardPeers?

        /// Inserts rows of users and record types that are missing, in a transaction of its own, and returns the numbers
        /// of all.
        ///
        /// Another transaction that inserted the same name would wait for this one to end, and this one perhaps for a
        /// lock of the other.
        package typealias NameInsertion = (
            _ users: [UserID], _ types: [String]
        ) throws(PostgresError) -> (users: [UserID: Int64], types: [String: Int64])

        /// - Parameters:
        ///   - connection: a connection with an open transaction, or one that `opening` opens.
        ///   - home: the container's row.
        ///   - names: the numbers that are known already.
        ///   - insertNames: inserts missing names.
        ///   - opening: statements to send first.
        init(
            on connection: PostgresConnection,
            of home: HomeRow,
            names: StoreNames,
            insertNames: @escaping NameInsertion,
            opening: PostgresPipeline = PostgresPipeline()
        ) {
            self.connection = connection
            self.home = home
            self.names = names
            self.insertNames = insertNames
            waiting = opening
            openingCount = opening.count
        }

        /// For code that knows no names; names that are missing are inserted by the transaction itself.
        package init(on connection: PostgresConnection, of home: HomeRow) {
            self.connection = connection
            self.home = home
            names = StoreNames()
            waiting = PostgresPipeline()
            openingCount = 0
            insertNames = { (users, types) throws(PostgresError) in
                try Self.insert(users, types, of: home, on: connection)
            }
        }

        /// Inserts the rows of users and record types that are missing, and returns the numbers of all.
        static func insert(
            _ users: [UserID],
            _ types: [String],
            of home: HomeRow,
            on connection: PostgresConnection
        ) throws(PostgresError) -> (users: [UserID: Int64], types: [String: Int64]) {
            // In the order of the names, so that two of these never wait for each other.
            let (users, types) = (users.map(\.recordName).sorted(), types.sorted())
            var insertion = PostgresPipeline()
            for (table, names) in [("person", users), ("record_type", types)] {
                insertion.add(
                    "INSERT INTO \(table) (home, name) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING",
                    .int(home.number),
                    .texts(names)
                )
                insertion.add(
                    Self.numbers(in: table),
                    .int(home.number),
                    .texts(names)
                )
            }
            let rows = try connection.run(insertion)
            return (
                Dictionary(rows[1].map { (UserID($0.text(0)), $0.int(1)) }) { $1 },
                Dictionary(rows[3].map { ($0.text(0), $0.int(1)) }) { $1 }
            )
        }

        /// Selects the numbers of the users or record types of the home `$1` that have the names `$2`.
        private static func numbers(in table: String) -> String {
            """
            SELECT t.name, t.id FROM unnest($2::text[]) AS n (name)
            CROSS JOIN \(LookUp.rows(of: table, where: "home = $1 AND name = n.name")) t
            """
        }

        // MARK: Statements

        /// Runs one statement, behind those that wait.
        @discardableResult
        package func query(_ sql: String, _ values: PostgresValue...) throws(PostgresError) -> PostgresRows {
            var pipeline = PostgresPipeline()
            pipeline.add(sql, values)
            return try run(pipeline)[0]
        }

        /// Runs statements in one round trip, behind those that wait, and returns the rows of each.
        package func run(_ pipeline: PostgresPipeline) throws(PostgresError) -> [PostgresRows] {
            var whole = takeWaiting()
            guard !whole.isEmpty else { return try connection.run(pipeline) }
            let count = whole.count
            whole.append(pipeline)
            let rows = try connection.run(whole)
            if openingRows.count < openingCount {
                openingRows = Array(rows.prefix(openingCount))
                try checkOpening(openingRows)
            }
            return Array(rows[count...])
        }

        /// Runs a statement that returns nothing, no later than at the commit.
        package func later(_ sql: String, _ values: PostgresValue...) { waiting.add(sql, values) }

        /// Takes the statements that wait, for the commit.
        func takeWaiting() -> PostgresPipeline {
            defer { waiting = PostgresPipeline() }
            flush()
            return waiting
        }

        /// Puts what its owner has deferred among the statements that wait.
        func flush() { beforeSending(&waiting) }

        // MARK: Users

        package func number(of user: UserID) throws(PostgresError) -> Int64? { try numbers(of: [user])[user] }

        /// Returns the numbers of those users that have one.
        package func numbers(of users: some Sequence<UserID>) throws(PostgresError) -> [UserID: Int64] {
            var found: [UserID: Int64] = [:]
            var unknown: [String] = []
            for user in users {
                if let number = names.number(of: user) {
                    found[user] = number
                } else {
                    unknown.append(user.recordName)
                }
            }
            guard !unknown.isEmpty else { return found }
            let rows = try query(
                Self.numbers(in: "person"),
                .int(home.number),
                .texts(unknown)
            )
            for row in rows {
                let user = UserID(row.text(0))
                names.add(user: user, number: row.int(1))
                found[user] = row.int(1)
            }
            return found
        }

        /// Returns the numbers of all these users; those that have none get one.
        package func ensureNumbers(of users: some Sequence<UserID>) throws(PostgresError) -> [UserID: Int64] {
            let users = Set(users)
            var found: [UserID: Int64] = [:]
            for user in users { found[user] = names.number(of: user) }
            guard found.count < users.count else { return found }
            let inserted = try insertNames(users.filter { found[$0] == nil }, []).users
            for (user, number) in inserted {
                names.add(user: user, number: number)
                found[user] = number
            }
            return found
        }

        package func ensureNumber(of user: UserID) throws(PostgresError) -> Int64 {
            if let number = names.number(of: user) { return number }
            guard let number = try ensureNumbers(of: [user])[user] else { throw .missing("a user") }
            return number
        }

        package func user(_ number: Int64) throws(PostgresError) -> UserID {
            if let user = names.user(number) { return user }
            try learn(users: [number], types: [])
            guard let user = names.user(number) else { throw .missing("the user \(number)") }
            return user
        }

        // MARK: Record types

        package func type(_ number: Int64) throws(PostgresError) -> String {
            if let type = names.type(number) { return type }
            try learn(users: [], types: [number])
            guard let type = names.type(number) else { throw .missing("the record type \(number)") }
            return type
        }

        package func number(ofType name: String) throws(PostgresError) -> Int64? {
            if let number = names.number(ofType: name) { return number }
            let row = try query(
                "SELECT id FROM record_type WHERE home = $1 AND name = $2",
                .int(home.number),
                .text(name)
            ).first
            guard let row else { return nil }
            names.add(type: name, number: row.int(0))
            return row.int(0)
        }

        package func ensureNumber(ofType name: String) throws(PostgresError) -> Int64 {
            if let number = names.number(ofType: name) { return number }
            guard let number = try insertNames([], [name]).types[name] else { throw .missing("a record type") }
            names.add(type: name, number: number)
            return number
        }

        /// Looks up names of many numbers in one round trip, so that `user` and `type` then need none.
        package func learn(users: some Sequence<Int64>, types: some Sequence<Int64>) throws(PostgresError) {
            let unknownUsers = Set(users).filter { names.user($0) == nil }
            let unknownTypes = Set(types).filter { names.type($0) == nil }
            guard !unknownUsers.isEmpty || !unknownTypes.isEmpty else { return }
            var lookup = PostgresPipeline()
            lookup.add("SELECT id, name FROM person WHERE id = ANY($1)", .ints(Array(unknownUsers)))
            lookup.add("SELECT id, name FROM record_type WHERE id = ANY($1)", .ints(Array(unknownTypes)))
            let found = try run(lookup)
            for row in found[0] { names.add(user: UserID(row.text(1)), number: row.int(0)) }
            for row in found[1] { names.add(type: row.text(1), number: row.int(0)) }
        }
    }

    extension PostgresError {
        /// The failure if a row that others refer to is missing.
        static func missing(_ what: String) -> PostgresError {
            PostgresError(.damaged, "The row of \(what) is missing.")
        }

        /// Converts a failure that met a request; does not reveal the cause.
        ///
        /// The only conversion from this module's errors to those of requests.
        static func relayError(for error: any Error) -> RelayError {
            switch error {
            case let error as RelayError: error
            case let error as PostgresError: error.relayError
            // Stored bytes that cannot be decoded.
            default: PostgresError(.damaged, "\(error)").relayError
            }
        }
    }
#endif
