import Foundation
package import Records
package import Wire

/// One call to the relay: an operation of a database with an encoded body.
package struct RelayCall: Sendable {
    package var scope: DatabaseScope
    /// The path below the database, such as `records/modify`.
    package var operation: String
    /// `nil` for a GET request.
    package var body: [UInt8]?
    package var isWrite: Bool
    package var settings: RequestSettings

    package init(
        _ scope: DatabaseScope,
        _ operation: String,
        _ body: [UInt8]? = nil,
        isWrite: Bool = false,
        settings: RequestSettings = RequestSettings()
    ) {
        self.scope = scope
        self.operation = operation
        self.body = body
        self.isWrite = isWrite
        self.settings = settings
    }
}

/// A failed call: the error, and the response body if it has details about single items.
package struct CallFailure: Error {
    package var error: CKError
    package var failure: ClientResponse.Failure?
    package var document: JSONDocument?
}

/// The sign-in that a task's requests belong to, on one connection.
///
/// A round of fetching or sending works for one user. If another user signs in during the round, the remaining requests
/// must not be sent, and above all must not write, as that user.
package struct AccountBinding: Sendable {
    @TaskLocal package static var current: AccountBinding?

    /// Identifies the connection; a connection that replaces it with the same station is treated as the same.
    private let station: NoticeStation
    private let generation: Int

    package init(_ connection: RelayConnection, generation: Int) {
        station = connection.notices
        self.generation = generation
    }

    /// Returns the sign-in that this task works for on a connection, or else the current one.
    package static func ofNow(_ connection: RelayConnection) -> AccountBinding {
        if let current, current.station === connection.notices { return current }
        return AccountBinding(connection, generation: connection.credentials.current.generation)
    }

    /// Runs `work` and sends its requests only as this sign-in.
    ///
    /// `work` must not call the app's code, because requests of the app do not belong to this sign-in.
    func during<Result>(_ work: () async throws(CKError) -> Result) async throws(CKError) -> Result {
        do {
            return try await Self.$current.withValue(self) { try await work() }
        } catch {
            throw CKError(from: error)
        }
    }

    /// Throws if the task works for another sign-in than this one.
    fileprivate static func check(_ connection: RelayConnection, _ generation: Int) throws(CallFailure) {
        guard let current, current.station === connection.notices,
            current.generation != generation, isHeeded
        else { return }
        throw CallFailure(
            error: CKError(.accountTemporarilyUnavailable, "Another user has signed in since this operation began.")
        )
    }
}

extension RelayConnection {
    /// Sends a call and reads the response.
    ///
    /// Stores the renewed token if the response contains one.
    package func send(_ call: RelayCall) async throws(CallFailure) -> JSONDocument {
        if credentials.hasUnusableKey {
            throw CallFailure(
                error: CKError(.notAuthenticated, "The server key's private key is not a P-256 key in PEM format.")
            )
        }
        var (token, generation) = credentials.current
        if token == nil, let fresh = try await signIn(insteadOf: nil) {
            (token, generation) = (fresh.token, fresh.generation)
        }
        try AccountBinding.check(self, generation)
        do throws(CallFailure) {
            return try await exchange(call, token, generation)
        } catch {
            // The relay refused the call before it executed it, so it is safe to repeat.
            guard error.error.code == .notAuthenticated, let fresh = try await signIn(insteadOf: token) else {
                throw error
            }
            try AccountBinding.check(self, fresh.generation)
            let document = try await exchange(call, fresh.token, fresh.generation)
            await notices.signedInAgain()
            return document
        }
    }

    /// Signs in, if the credential allows it.
    private func signIn(insteadOf refused: String?) async throws(CallFailure) -> (token: String, generation: Int)? {
        do {
            return try await credentials.signedIn(insteadOf: refused) { credential in
                try await self.fetchToken(for: credential)
            }
        } catch let failure as CallFailure {
            throw failure
        } catch {
            throw CallFailure(error: CKError(ofSignIn: error))
        }
    }

    /// Requests `users/signin` and returns the token.
    private func fetchToken(for credential: RelayCredential) async throws -> String {
        let body: [UInt8]
        switch credential {
        case .account(let email, let password): body = ClientRequest.signIn(emailAddress: email, password: password)
        case .identityToken(let provide): body = ClientRequest.signIn(identityToken: try await provide())
        case .webAuthToken, .dev, .serverKey, .nobody: throw CKError(.notAuthenticated)
        }
        let call = RelayCall(.public, "users/signin", body, isWrite: true)
        let document = try await exchange(call, nil, credentials.current.generation)
        return try reading { () throws(JSONError) in try document.root.required("ckWebAuthToken").string() }
    }

    private func exchange(
        _ call: RelayCall,
        _ token: String?,
        _ generation: Int
    ) async throws(CallFailure) -> JSONDocument {
        let request: RelayRequest
        do throws(CKError) {
            request = try self.request(for: call, webAuthToken: token)
        } catch {
            throw CallFailure(error: error)
        }
        let response: RelayResponse
        do {
            response = try await transport.send(request, until: call.settings.deadline)
        } catch {
            if case .cancelled = error {} else { notices.requestEnded(wasAnswered: false) }
            throw CallFailure(error: CKError(error, isWrite: call.isWrite))
        }
        if token != nil, let fresh = response.header("X-Apple-CloudKit-Web-Auth-Token"), !fresh.isEmpty {
            credentials.renew(fresh, generation: generation)
        }
        let document = try Self.read(response, isWrite: call.isWrite)
        notices.requestEnded(wasAnswered: true)
        return document
    }

    private static func read(_ response: RelayResponse, isWrite: Bool) throws(CallFailure) -> JSONDocument {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: response.body, limits: .response)
        } catch {
            guard response.status == 200 else {
                throw CallFailure(error: CKError(foreign: response, isWrite: isWrite))
            }
            throw CallFailure(error: CKError(error))
        }
        guard response.status != 200 else { return document }
        guard let failure = try? ClientResponse.failure(document.root, zone: nil) else {
            throw CallFailure(error: CKError(foreign: response, isWrite: isWrite))
        }
        throw CallFailure(error: CKError(failure, at: .request), failure: failure, document: document)
    }

    private func request(for call: RelayCall, webAuthToken: String?) throws(CKError) -> RelayRequest {
        var query: [String] = []
        let key = credentials.serverKey
        if let token = credentials.apiToken, key == nil { query.append("ckAPIToken=" + Self.escape(token)) }
        if let token = webAuthToken { query.append("ckWebAuthToken=" + Self.escape(token)) }
        var headers = [("X-Zonecast-Device-ID", deviceID), ("Accept", "application/json")]
        if call.body != nil { headers.append(("Content-Type", "application/json; charset=utf-8")) }
        headers += call.settings.headers.map { ($0.name, $0.value) }
        let path =
            "/database/1/\(Self.escape(container))/\(environment.rawValue)/\(call.scope.pathName)/\(call.operation)"
        headers += try key?.headers(path: path, body: call.body ?? [], at: Date()) ?? []
        return RelayRequest(
            method: call.body == nil ? .get : .post,
            path: path,
            query: query.joined(separator: "&"),
            headers: headers.map { (name: $0.0, value: $0.1) },
            body: call.body ?? [],
            isWrite: call.isWrite,
            timeout: call.settings.timeout
        )
    }

    /// Percent-encodes all characters outside RFC 3986's unreserved set; tokens contain `+`, `/` and `=`.
    private static func escape(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    )
}

extension CKDatabase {
    /// Sends a call to this database and throws its failure as a `CKError`.
    package func call(
        _ operation: String,
        _ body: [UInt8]? = nil,
        isWrite: Bool = false
    ) async throws(CKError) -> JSONDocument {
        do {
            return try await session.connection().send(
                RelayCall(scope, operation, body, isWrite: isWrite, settings: settings)
            )
        } catch let failure as CallFailure {
            // If a query fails as a whole because of a missing record type, the error is about an item, not about the
            // container.
            if operation == "records/query", let said = failure.failure { throw CKError(said, at: .item) }
            throw failure.error
        } catch let error as CKError {
            throw error
        } catch {
            throw CKError(.internalError, "\(error)")
        }
    }

    /// Throws unless this database has a change feed; the public database has none.
    package func requireChangeFeed() throws(CKError) {
        guard databaseScope != .public else {
            throw CKError(.badDatabase, "The public database has no change feed. Query it instead.")
        }
    }

    /// Throws unless zones can be created and deleted in this database; the public database has only the default zone.
    func requireZones() throws(CKError) {
        guard databaseScope != .public else {
            throw CKError(.badDatabase, "The public database has only the default zone. Use the private database.")
        }
    }

    /// Throws if a subscription watches zones in the public database, which has no change feed.
    func requireFeed(for subscriptions: [CKSubscription]) throws(CKError) {
        guard databaseScope == .public, let odd = subscriptions.first(where: { $0.subscriptionType != .query }) else {
            return
        }
        throw CKError(
            .badDatabase,
            "Subscription '\(odd.subscriptionID)' cannot watch the public database. Use a CKQuerySubscription there."
        )
    }
}

/// Reads a response.
///
/// An unreadable response becomes an `internalError`.
package func reading<T>(_ body: () throws(JSONError) -> T) throws(CKError) -> T {
    do {
        return try body()
    } catch {
        throw CKError(error)
    }
}
