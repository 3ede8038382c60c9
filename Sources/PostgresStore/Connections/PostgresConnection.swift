#if Postgres
    import CPostgres
    import Foundation
    import Synchronization

    /// Statements that are sent together and answered in one round trip.
    package struct PostgresPipeline {
        fileprivate var statements: [(sql: String, parameters: PostgresParameters)] = []

        package init() {}

        package var isEmpty: Bool { statements.isEmpty }
        var count: Int { statements.count }

        mutating func append(_ other: PostgresPipeline) { statements += other.statements }

        /// Adds a statement, which is prepared under its text when a connection first runs it.
        ///
        /// So the text must be one of few: values belong into parameters `$1`, `$2` and so on.
        ///
        /// - Returns: the place of its rows in what `PostgresConnection.run` returns.
        @discardableResult
        package mutating func add(_ sql: String, _ values: PostgresValue...) -> Int { add(sql, values) }

        /// Does the same with a list of values.
        @discardableResult
        package mutating func add(_ sql: String, _ values: [PostgresValue]) -> Int {
            statements.append((sql, PostgresParameters(values)))
            return statements.count - 1
        }
    }

    /// One connection to a server, always in pipeline mode.
    // Unchecked: its owner, a pool or the code that connected, uses it from one thread at a time.
    package final class PostgresConnection: @unchecked Sendable {
        package enum Purpose: Int, Sendable, CaseIterable {
            case reading
            case writing
            /// Short transactions that wait for no owner's lock; a thread may run one beside its write or its read.
            case brief
        }

        /// How long a statement may run and may wait for a lock, and how long an answer may take before the connection is
        /// given up.
        package struct Timeouts: Sendable {
            package var statement = Duration.seconds(30)
            package var lock = Duration.seconds(10)
            /// Longer than `statement`: after a commit's it leaves the outcome unknown.
            package var answer = Duration.seconds(60)
            /// The same for brief transactions.
            package var briefAnswer = Duration.seconds(60)
            /// How long the server waits for the next statement of a transaction, whose locks others may need.
            package var idle = Duration.seconds(5)

            package init() {}
        }

        private let pointer: OpaquePointer
        private let warnings = Warnings()
        private let timeouts: Timeouts
        /// How long an answer may take, usually and now.
        private let usualLimit: Duration
        private var answerLimit: Duration
        /// The names of prepared statements by their text.
        private var prepared: [String: String] = [:]
        /// Whether the answer to the latest pipeline has yet to be read.
        private var hasUnreadEnd = false
        private var isGivenUp = false
        /// Set by any thread.
        private let isCut = Atomic(false)
        /// The number of round trips so far, for tests of costs.
        package private(set) var roundTrips = 0

        /// The oldest server that has all that the relay uses.
        private static let oldestVersion: Int32 = 150_000

        /// Connects; tries all servers of the address.
        package init(
            to address: PostgresAddress,
            for purpose: Purpose = .writing,
            timeouts: Timeouts = Timeouts()
        ) throws(PostgresError) {
            var keywords: [UnsafeMutablePointer<CChar>?] = []
            var values: [UnsafeMutablePointer<CChar>?] = []
            for (keyword, value) in address.parameters {
                keywords.append(strdup(keyword))
                values.append(strdup(value))
            }
            defer { (keywords + values).forEach { free($0) } }
            let pointer = (keywords + [nil]).withUnsafeBufferPointer { keywords in
                (values + [nil]).withUnsafeBufferPointer { values in
                    keywords.withMemoryRebound(to: UnsafePointer<CChar>?.self) { keywords in
                        values.withMemoryRebound(to: UnsafePointer<CChar>?.self) { values in
                            PQconnectdbParams(keywords.baseAddress, values.baseAddress, 0)
                        }
                    }
                }
            }
            guard let pointer else { throw PostgresError(.unreachable, "There is no memory for a connection.") }
            self.pointer = pointer
            self.timeouts = timeouts
            usualLimit = purpose == .brief ? min(timeouts.answer, timeouts.briefAnswer) : timeouts.answer
            answerLimit = usualLimit
            PQsetNoticeReceiver(pointer, Warnings.receiver, Unmanaged.passUnretained(warnings).toOpaque())
            guard PQstatus(pointer) == CONNECTION_OK else {
                throw Self.refusal(String(cString: PQerrorMessage(pointer)), address)
            }
            guard PQserverVersion(pointer) >= Self.oldestVersion else {
                let version = String(cString: PQparameterStatus(pointer, "server_version"))
                throw PostgresError(.serverTooOld, "The server of \(address) is PostgreSQL \(version).")
            }
            guard PQsetnonblocking(pointer, 1) == 0, PQenterPipelineMode(pointer) == 1 else { throw lost() }
            var setup = PostgresPipeline()
            if purpose == .reading {
                setup.add("SET statement_timeout = \(timeouts.statement.wholeMilliseconds)")
                setup.add("SET default_transaction_read_only = on")
            }
            // A relay that stands still must not keep an owner locked.
            setup.add("SET idle_in_transaction_session_timeout = \(timeouts.idle.wholeMilliseconds)")
            // All statements look up few rows by keys, whatever the planner believes of tables that are new.
            for method in Self.methodsForManyRows { setup.add("SET \(method) = off") }
            setup.add("SET jit = off")
            setup.add("SET plan_cache_mode = force_generic_plan")
            setup.add("SET lock_timeout = \(timeouts.lock.wholeMilliseconds)")
            try run(setup)
        }

        /// What costs less than look-ups only if many rows are read, and whose cost the planner takes for small in new tables.
        private static let methodsForManyRows = [
            "enable_bitmapscan", "enable_hashjoin", "enable_material", "enable_mergejoin", "enable_seqscan",
        ]

        /// Lets the planner choose freely, for statements that read whole tables.
        func planForManyRows() throws(PostgresError) {
            var settings = PostgresPipeline()
            for setting in Self.methodsForManyRows + ["plan_cache_mode"] { settings.add("RESET \(setting)") }
            try run(settings)
        }

        deinit { PQfinish(pointer) }

        /// Whether the connection is of no more use.
        package var isBroken: Bool {
            isGivenUp || isCut.load(ordering: .relaxed) || PQstatus(pointer) != CONNECTION_OK
        }

        /// Gives the connection up, from any thread; a thread that waits for an answer on it fails soon.
        func cut() { isCut.store(true, ordering: .relaxed) }

        /// Gives the connection up after a shorter time than usual without an answer, until `endLimit`.
        func limitAnswers(to limit: Duration) { answerLimit = min(limit, usualLimit) }

        func endLimit() { answerLimit = usualLimit }

        /// Does the same while `body` runs.
        func limitAnswers<Result>(
            to limit: Duration,
            _ body: () throws(PostgresError) -> Result
        ) throws(PostgresError) -> Result {
            limitAnswers(to: limit)
            defer { endLimit() }
            return try body()
        }

        /// Whether the server has closed an idle connection, as it does when it stops.
        func hasVanished() -> Bool {
            // The end of the latest transaction may have arrived, and the reason in front of the end of the stream.
            for _ in 0..<3 {
                var place = pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0)
                guard !isBroken, poll(&place, 1, 0) > 0 else { break }
                if PQconsumeInput(pointer) != 1 { isGivenUp = true }
            }
            return isBroken
        }

        /// The process that serves the connection.
        package var serverProcess: Int32 { PQbackendPID(pointer) }

        /// The server that the connection has reached, for messages.
        package var serverName: String {
            let host = PQhost(pointer).map { String(cString: $0) } ?? ""
            let port = PQport(pointer).map { String(cString: $0) } ?? ""
            return "\(host):\(port)"
        }

        // MARK: Statements

        /// Runs one statement.
        @discardableResult
        package func query(_ sql: String, _ values: PostgresValue...) throws(PostgresError) -> PostgresRows {
            var pipeline = PostgresPipeline()
            pipeline.add(sql, values)
            return try run(pipeline)[0]
        }

        /// Runs the statements in one round trip, and returns the rows of each.
        ///
        /// Without an open transaction, they are one transaction. After the first failure, no other statement runs.
        @discardableResult
        package func run(_ pipeline: PostgresPipeline) throws(PostgresError) -> [PostgresRows] {
            let sent = try send(pipeline)
            return try receive(sent).rows
        }

        /// Opens a transaction for a write, in front of the statements of its first round trip.
        package func begin(_ pipeline: PostgresPipeline) throws(PostgresError) -> ArraySlice<PostgresRows> {
            var whole = PostgresPipeline()
            whole.add("BEGIN")
            whole.add("SET LOCAL statement_timeout = \(timeouts.statement.wholeMilliseconds)")
            whole.statements += pipeline.statements
            return try run(whole)[2...]
        }

        /// Runs the statements and commits the transaction that is open, in one round trip.
        ///
        /// - Throws: `outcomeUnknown` if the server may have committed; with any other code it has not.
        @discardableResult
        package func commit(_ pipeline: PostgresPipeline = PostgresPipeline()) throws(PostgresError) -> [PostgresRows] {
            var whole = pipeline
            // A cancelled COMMIT may have succeeded here and not on the standby: nothing may cancel it.
            whole.add("SET LOCAL statement_timeout = 0")
            whole.add("COMMIT")
            let sent = try send(whole)
            var answer: (rows: [PostgresRows], warning: String?)
            do throws(PostgresError) {
                answer = try receive(sent)
            } catch {
                // A statement's own failure ends the transaction before COMMIT.
                guard isBroken else { throw error }
                throw PostgresError(
                    .outcomeUnknown,
                    "The database did not answer a commit: \(error.detail)",
                    sqlState: error.sqlState
                )
            }
            guard let last = answer.rows.last, String(cString: PQcmdStatus(last.result)) == "COMMIT" else {
                throw PostgresError(.failed, "The database rolled a transaction back.")
            }
            if let warning = Self.heeded(answer.warning) {
                throw PostgresError(.outcomeUnknown, "The database committed with a warning: \(warning)")
            }
            answer.rows.removeLast(2)
            return answer.rows
        }

        /// Ends the open transaction without its changes; does nothing if there is none.
        package func rollBack() {
            guard !isBroken, !hasUnreadEnd, PQtransactionStatus(pointer) != PQTRANS_IDLE else { return }
            do throws(PostgresError) {
                var end = PostgresPipeline()
                end.add("ROLLBACK")
                try run(end)
            } catch {
                isGivenUp = true
            }
        }

        /// Ends a transaction that has only read, without waiting for the answer.
        package func endReading() {
            do throws(PostgresError) {
                var end = PostgresPipeline()
                end.add("COMMIT")
                guard !isBroken, PQtransactionStatus(pointer) == PQTRANS_INTRANS, prepared["COMMIT"] != nil else {
                    return rollBackOrPrepare(end)
                }
                _ = try send(end)
                hasUnreadEnd = true
            } catch {
                isGivenUp = true
            }
        }

        private func rollBackOrPrepare(_ end: PostgresPipeline) {
            guard PQtransactionStatus(pointer) == PQTRANS_INTRANS else { return rollBack() }
            do throws(PostgresError) { try run(end) } catch { isGivenUp = true }
        }

        // MARK: Copying

        /// Runs a `COPY ... FROM STDIN` in the open transaction, with the bytes that `body` passes to its argument.
        ///
        /// - Returns: the number of rows.
        @discardableResult
        package func copyIn(
            _ sql: String,
            _ body: (_ send: (ArraySlice<UInt8>) throws(PostgresError) -> Void) throws(PostgresError) -> Void
        ) throws(PostgresError) -> Int {
            try readEnd()
            // Copying is impossible in pipeline mode.
            guard PQexitPipelineMode(pointer) == 1, PQsendQuery(pointer, sql) == 1 else { throw lost() }
            roundTrips += 1
            try flush()
            let start = try takeResult()
            guard PQresultStatus(start.result) == PGRES_COPY_IN else { throw try endCopy(after: start) }
            do throws(PostgresError) {
                try body { bytes throws(PostgresError) in
                    let isTaken = bytes.withUnsafeBytes { bytes in
                        let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
                        return start.map { PQputCopyData(pointer, $0, Int32(bytes.count)) } ?? 1
                    }
                    guard isTaken == 1 else { throw lost() }
                    try flush()
                }
            } catch {
                guard PQputCopyEnd(pointer, "the caller gave up") == 1 else { throw lost() }
                try flush()
                _ = try endCopy(after: try takeResult())
                throw error
            }
            guard PQputCopyEnd(pointer, nil) == 1 else { throw lost() }
            try flush()
            let end = try takeResult()
            guard PQresultStatus(end.result) == PGRES_COMMAND_OK else { throw try endCopy(after: end) }
            _ = try endCopy(after: end)
            return end.changed
        }

        private func takeResult() throws(PostgresError) -> PostgresRows {
            guard let result = try nextResult() else {
                throw giveUp("an answer is missing")
            }
            return PostgresRows(result)
        }

        /// Returns to pipeline mode; the result is the failure if the server refused to copy.
        private func endCopy(after rows: PostgresRows) throws(PostgresError) -> PostgresError {
            let failure = Self.failure(in: rows.result)
            while let next = try nextResult() { PQclear(next) }
            guard PQenterPipelineMode(pointer) == 1 else { throw lost() }
            return failure
        }

        // MARK: Notifications

        /// Waits for notifications to which the connection listens; returns their payloads, none after `time`.
        package func notifications(within time: Duration) throws(PostgresError) -> [String] {
            try readEnd()
            let known = takeNotifications()
            guard known.isEmpty else { return known }
            var place = pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0)
            let count = poll(&place, 1, Int32(clamping: time.wholeMilliseconds))
            if count < 0, errno != EINTR { throw lost() }
            guard count > 0 else { return [] }
            guard PQconsumeInput(pointer) == 1, PQstatus(pointer) == CONNECTION_OK else { throw lost() }
            return takeNotifications()
        }

        private func takeNotifications() -> [String] {
            var payloads: [String] = []
            while let next = PQnotifies(pointer) {
                payloads.append(String(cString: next.pointee.extra))
                PQfreemem(next)
            }
            return payloads
        }

        // MARK: Sending

        /// What was sent, in the order of the answers.
        private enum Sent {
            case preparation(sql: String, name: String)
            case statement
        }

        private func send(_ pipeline: PostgresPipeline) throws(PostgresError) -> [Sent] {
            try readEnd()
            var sent: [Sent] = []
            sent.reserveCapacity(pipeline.statements.count)
            var new: [String: String] = [:]
            for (sql, parameters) in pipeline.statements {
                let name: String
                if let known = prepared[sql] ?? new[sql] {
                    name = known
                } else {
                    name = "s\(prepared.count + new.count)"
                    new[sql] = name
                    let isSent = PQsendPrepare(pointer, name, sql, Int32(parameters.types.count), parameters.types)
                    guard isSent == 1 else { throw lost() }
                    sent.append(.preparation(sql: sql, name: name))
                }
                let isSent = parameters.withPointers { values, lengths, formats in
                    PQsendQueryPrepared(pointer, name, Int32(parameters.types.count), values, lengths, formats, 1)
                }
                guard isSent == 1 else { throw lost() }
                sent.append(.statement)
            }
            guard PQpipelineSync(pointer) == 1 else { throw lost() }
            roundTrips += 1
            try flush()
            return sent
        }

        private func flush() throws(PostgresError) {
            var deadline = ContinuousClock.now + answerLimit
            while true {
                switch PQflush(pointer) {
                case 0: return
                case 1:
                    // The server may stop reading until its answers are read.
                    guard try wait(for: POLLIN | POLLOUT, until: deadline) else { continue }
                    guard PQconsumeInput(pointer) == 1 else { throw lost() }
                    deadline = ContinuousClock.now + answerLimit
                default: throw lost()
                }
            }
        }

        /// How long a thread waits before it looks whether the connection was cut.
        private static let mostWait: Int64 = 250

        /// Returns whether there is something to read or room to write; call it again otherwise.
        private func wait(for events: Int32, until deadline: ContinuousClock.Instant) throws(PostgresError) -> Bool {
            guard !isCut.load(ordering: .relaxed) else { throw giveUp("another server is the primary") }
            var place = pollfd(fd: PQsocket(pointer), events: Int16(events), revents: 0)
            let rest = (deadline - ContinuousClock.now).wholeMilliseconds
            guard rest > 0 else { throw giveUp("no answer within \(answerLimit)") }
            let count = poll(&place, 1, Int32(min(rest, Self.mostWait)))
            if count < 0, errno != EINTR { throw lost() }
            return count > 0
        }

        // MARK: Receiving

        /// Reads the answers up to the end of the pipeline.
        private func receive(_ sent: [Sent]) throws(PostgresError) -> (rows: [PostgresRows], warning: String?) {
            var rows: [PostgresRows] = []
            var failure: PostgresError?
            for each in sent {
                warnings.latest = nil
                guard let result = try nextResult() else { throw giveUp("an answer is missing") }
                let answer = PostgresRows(result)
                switch PQresultStatus(result) {
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
                    switch each {
                    case .preparation(let sql, let name): prepared[sql] = name
                    case .statement: rows.append(answer)
                    }
                case PGRES_PIPELINE_ABORTED: break
                default: failure = failure ?? Self.failure(in: result)
                }
                // Each answer ends with an empty one.
                guard try nextResult() == nil else { throw giveUp("an answer has two results") }
            }
            let warning = warnings.latest
            guard let end = try nextResult() else { throw giveUp("the end of the answers is missing") }
            defer { PQclear(end) }
            guard PQresultStatus(end) == PGRES_PIPELINE_SYNC else { throw giveUp("the end of the answers is missing") }
            if let failure { throw failure }
            return (rows, warning)
        }

        /// Waits for a result; a long one may take as long as it likes, unless nothing of it comes for a while.
        private func nextResult() throws(PostgresError) -> OpaquePointer? {
            var deadline = ContinuousClock.now + answerLimit
            while PQisBusy(pointer) == 1 {
                guard try wait(for: POLLIN, until: deadline) else { continue }
                guard PQconsumeInput(pointer) == 1 else { throw lost() }
                deadline = ContinuousClock.now + answerLimit
            }
            return PQgetResult(pointer)
        }

        private func readEnd() throws(PostgresError) {
            guard !isGivenUp else { throw lost() }
            guard hasUnreadEnd else { return }
            hasUnreadEnd = false
            _ = try receive([.statement])
        }

        // MARK: Failures

        private func giveUp(_ reason: String) -> PostgresError {
            isGivenUp = true
            return PostgresError(.connectionLost, "The connection to \(serverName) was given up: \(reason).")
        }

        private func lost() -> PostgresError {
            isGivenUp = true
            let message = String(cString: PQerrorMessage(pointer)).split(separator: "\n").first.map(String.init)
            return PostgresError(.connectionLost, "The connection to \(serverName) broke: \(message ?? "closed").")
        }

        private static func failure(in result: OpaquePointer) -> PostgresError {
            func field(_ code: Int32) -> String? { PQresultErrorField(result, code).map { String(cString: $0) } }
            let message = field(zonecast_pq_message) ?? "no reason given"
            guard let state = field(zonecast_pq_state) else {
                return PostgresError(.connectionLost, "The connection broke.")
            }
            return PostgresError(sqlState: state, "The database refused a statement: \(message) (\(state)).")
        }

        /// Classifies a failure to connect, for which libpq has a text and no code.
        private static func refusal(_ text: String, _ address: PostgresAddress) -> PostgresError {
            let lines = address.redacted(text).split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            // A hint may follow the reason.
            let reason = lines.last { $0.contains("failed: ") } ?? lines.last.map { String($0) } ?? "no reason given"
            let message = (reason.components(separatedBy: "failed: ").last ?? reason)
                .replacingOccurrences(of: "FATAL:  ", with: "").trimmingCharacters(in: ["."])
            let causes: [(PostgresError.Code, [String])] = [
                (.noPrimary, ["server is in hot standby mode", "session is read-only"]),
                (.accessDenied, ["authentication failed", "no password supplied", "pg_hba.conf", "role \""]),
                (.noDatabase, ["database \""]),
                (.tooManyConnections, ["too many clients", "remaining connection slots", "too many connections"]),
            ]
            let code = causes.first { _, signs in signs.contains { text.contains($0) } }?.0 ?? .unreachable
            return switch code {
            case .noPrimary:
                PostgresError(code, "None of the servers \(address.servers.joined(separator: ", ")) is a primary.")
            case .accessDenied: PostgresError(code, "The server of \(address) refuses to let the relay in: \(message).")
            case .noDatabase: PostgresError(code, "The database \(address.database) does not exist.")
            case .tooManyConnections: PostgresError(code, "The server of \(address) has no connection left.")
            default: PostgresError(code, "The database \(address) cannot be reached: \(message).")
            }
        }
    }

    /// The latest warning of a connection.
    ///
    /// Only its connection's thread uses it.
    private final class Warnings {
        var latest: String?

        static let receiver: PQnoticeReceiver = { context, result in
            guard let context, let severity = PQresultErrorField(result, zonecast_pq_severity),
                String(cString: severity) == "WARNING"
            else { return }
            let message = PQresultErrorField(result, zonecast_pq_message).map { String(cString: $0) }
            Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue().latest = message ?? "unknown"
        }
    }

    extension Duration {
        var wholeMilliseconds: Int64 { components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000 }
    }
#endif
