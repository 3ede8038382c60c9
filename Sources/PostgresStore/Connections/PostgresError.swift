#if Postgres
    package import Records

    /// A failure of the database or of the way to it.
    package struct PostgresError: Error, Hashable, Sendable {
        package enum Code: Sendable, CaseIterable {
            /// The connection URL is malformed.
            case badAddress
            /// No server accepts connections at the address.
            case unreachable
            /// Servers answer, but none is a primary.
            case noPrimary
            /// The server refuses the user or the password.
            case accessDenied
            /// The server has no database of this name.
            case noDatabase
            /// The server has no room for another connection.
            case tooManyConnections
            /// The server's version is too old.
            case serverTooOld
            /// No relay has used the database, and the caller must not be the first.
            case noLayout
            /// The database belongs to another program.
            case foreignLayout
            /// The database cannot store all of Unicode.
            case foreignEncoding
            /// A later version of the relay has changed the tables.
            case newerLayout
            /// The database belongs to another cluster of relays.
            case otherCluster
            /// The clocks of this machine and of the database differ too much.
            case clockSkew
            /// Another node of the cluster has the same name.
            case nameTaken
            /// All connections of this process are in use.
            case busy
            /// The connection broke. Nothing was committed.
            case connectionLost
            /// The database did not confirm a commit, which may have happened or not.
            case outcomeUnknown
            /// A statement took too long, or waited too long for a lock.
            case timedOut
            /// Another transaction was in the way; a repetition may succeed.
            case conflict
            /// The server has become a standby or is shutting down.
            case notWritable
            case diskFull
            /// A row with the same key exists.
            case duplicate
            /// The database's content is damaged.
            case damaged
            /// A write touched the data of an owner that it had not named: a mistake of the relay.
            case foreignOwner
            /// The database refused a statement for another reason.
            case failed
        }

        package var code: Code
        /// PostgreSQL's code of the cause.
        package var sqlState: String?
        /// What happened, for the operator; names no value of a statement and no password.
        package var detail: String

        package init(_ code: Code, _ detail: String, sqlState: String? = nil) {
            self.code = code
            self.sqlState = sqlState
            self.detail = detail
        }

        /// Classifies a refusal of the server.
        init(sqlState: String, _ detail: String) {
            let code: Code =
                switch sqlState {
                case "23505": .duplicate
                case "25006": .notWritable
                case "3D000": .noDatabase
                case "40001", "40P01": .conflict
                case "53100": .diskFull
                case "53300": .tooManyConnections
                case "57014", "55P03": .timedOut
                case "XX001", "XX002": .damaged
                default:
                    switch sqlState.prefix(2) {
                    case "28": .accessDenied
                    case "57": .notWritable
                    case "08": .connectionLost
                    default: .failed
                    }
                }
            self.init(code, detail, sqlState: sqlState)
        }

        /// The error for a request that met this failure; does not reveal the cause.
        package var relayError: RelayError {
            switch code {
            case .outcomeUnknown:
                RelayError(
                    .tryAgainLater,
                    "The relay's database did not confirm this write, which may have been stored nevertheless. Try again later.",
                    fineCode: .serverResponseLost,
                    retryAfter: .seconds(5)
                )
            case .unreachable, .noPrimary, .connectionLost, .notWritable, .tooManyConnections:
                RelayError(
                    .tryAgainLater,
                    "The relay cannot reach its database now. Try again in a few seconds.",
                    retryAfter: .seconds(5)
                )
            case .busy, .conflict:
                RelayError(
                    .tryAgainLater,
                    "The relay's database is busy. Try again in a few seconds.",
                    retryAfter: .seconds(2)
                )
            case .timedOut:
                RelayError(
                    .tryAgainLater,
                    "The relay's database took too long. Try again later, or ask for less.",
                    retryAfter: .seconds(10)
                )
            case .diskFull:
                RelayError(.tryAgainLater, "The disk of the relay's database is full.", retryAfter: .seconds(30))
            case .badAddress, .accessDenied, .noDatabase, .serverTooOld, .noLayout, .foreignLayout,
                .foreignEncoding, .newerLayout, .otherCluster, .clockSkew, .nameTaken:
                RelayError(
                    .tryAgainLater,
                    "The relay cannot use its database; the operator should read the relay's log.",
                    retryAfter: .seconds(60)
                )
            case .damaged:
                RelayError(.internalError, "The store is damaged; the operator should restore a backup.")
            case .foreignOwner:
                RelayError(
                    .internalError,
                    "The write touched another owner's data, so it was not stored; report this."
                )
            case .duplicate, .failed:
                RelayError(.internalError, "The relay's database refused a statement; report this.")
            }
        }
    }

    extension PostgresError: CustomStringConvertible {
        /// One sentence for the operator about what happened, and one about the remedy.
        package var description: String { ([detail] + (remedy.map { [$0] } ?? [])).joined(separator: " ") }

        /// What the operator can do, as a sentence; `nil` if that depends on the detail.
        package var remedy: String? {
            switch code {
            case .badAddress: "Write it as postgres://USER@HOST:PORT/DATABASE."
            case .unreachable: "Check that PostgreSQL runs there, and that host and port are right."
            case .noPrimary: "Name all servers of the cluster in the URL, and check which of them is the primary."
            case .accessDenied: "Check the user, the password and the server's pg_hba.conf."
            case .noDatabase: "Create it with createdb, or correct the name in the URL."
            case .tooManyConnections: "Raise max_connections, or run fewer relays."
            case .serverTooOld: "Upgrade PostgreSQL to version 15 or later."
            case .noLayout:
                "Name the database of your relays, or restore it; the first relay or zonecast container create makes a new one."
            case .foreignLayout: "Name an empty database."
            case .foreignEncoding: "Create it with: createdb --encoding UTF8 --locale C --template template0"
            case .newerLayout: "Install the later version of zonecast again."
            case .otherCluster: "Name the database of this cluster."
            case .diskFull: "Free space on the database's disk."
            case .clockSkew: "Set both with NTP (chrony or systemd-timesyncd): relays of one cluster must agree."
            case .nameTaken: "Give each relay its own name with --node."
            default: nil
            }
        }
    }
#endif
