import Foundation
import Records

/// The way to one certificate (RFC 8555), without sockets and clocks.
///
///     directory -> nonce -> account -> order -> for each authorization: challenge, poll -> finalize, poll -> certificate
///
/// A response with `badNonce` repeats its request with the new nonce.
package struct CertificateIssuance: Sendable {
    package enum Event: Sendable {
        case started
        case received(ACMEResponse)
        /// The request could not be sent, or has no complete response.
        case unreachable(String)
        case published
        case waited
    }

    package enum Action: Hashable, Sendable {
        case send(ACMERequest)
        /// Serve the challenge on port 80 until the end.
        case publish(HTTPChallenge)
        case wait(Duration)
        /// The certificate and its intermediate certificates in PEM.
        case complete(String)
        case fail(ACMEFault)
    }

    private enum Step {
        case directory
        case account
        case order
        case authorization
        case challenge
        case finalize
        case orderStatus
        case certificate
    }

    private enum State {
        case idle
        case requested(Step)
        case requestedNonce(then: Step)
        case publishing
        case waiting(then: Step)
        case ended
    }

    /// Pauses between two polls in a row, in total.
    private static let longestWait = Duration.seconds(300)
    private static let maximumNonceRetries = 10

    private let domain: String
    private let email: String
    private let directoryURL: String
    private let accountKey: ACMEAccountKey
    /// The signing request in DER.
    private let signingRequest: [UInt8]

    private var state = State.idle
    private var nonce: String?
    private var nonceRetries = 0
    private var waited = Duration.zero
    private var directory: ACMEMessage.Directory?
    private var account: String?
    private var orderURL = ""
    private var authorizations: ArraySlice<String> = []
    private var challengeURL = ""
    private var finalizeURL = ""
    private var certificateURL = ""

    /// `directory` is the https address of the server's directory; `signingRequest` is that for `domain` in DER.
    package init(
        domain: String,
        email: String,
        directory: String,
        accountKey: ACMEAccountKey,
        signingRequest: [UInt8]
    ) {
        self.domain = domain
        self.email = email
        self.directoryURL = directory
        self.accountKey = accountKey
        self.signingRequest = signingRequest
    }

    /// The server's host, for messages.
    private var server: String { URL(string: directoryURL)?.host() ?? directoryURL }

    /// Returns what to do next; each action is answered with one event, until `complete` or `fail`.
    package mutating func handle(_ event: Event) -> Action {
        do throws(ACMEFault) {
            switch (state, event) {
            case (.idle, .started):
                return try send(.directory)
            case (.requestedNonce(let step), .received(let response)):
                guard response.nonce != nil, response.status < 400 else { throw refusal(response) }
                nonce = response.nonce
                return try send(step)
            case (.requested(let step), .received(let response)):
                return try received(response, for: step)
            case (.publishing, .published):
                return try send(.challenge)
            case (.waiting(let step), .waited):
                return try send(step)
            case (_, .unreachable(let reason)):
                throw .unreachable(server, reason)
            case (_, .started), (_, .received), (_, .published), (_, .waited):
                throw .unexpectedAnswer(server, "it came out of order")
            }
        } catch {
            state = .ended
            return .fail(error)
        }
    }

    // MARK: Requests

    private mutating func send(_ step: Step) throws(ACMEFault) -> Action {
        guard let directory else {
            state = .requested(.directory)
            return .send(ACMERequest(method: .get, url: try checked(directoryURL)))
        }
        guard let nonce else {
            state = .requestedNonce(then: step)
            return .send(ACMERequest(method: .head, url: try checked(directory.newNonce)))
        }
        self.nonce = nil
        state = .requested(step)
        let (url, payload) = try content(of: step, directory)
        do {
            let body = try accountKey.sign(payload, for: checked(url), nonce: nonce, account: account)
            return .send(ACMERequest(method: .post(body), url: url))
        } catch let fault as ACMEFault {
            throw fault
        } catch {
            throw .unexpectedAnswer(server, "\(error)")
        }
    }

    private func content(of step: Step, _ directory: ACMEMessage.Directory) throws(ACMEFault)
        -> (url: String, payload: [UInt8]?)
    {
        switch step {
        case .directory: (directoryURL, nil)
        case .account: (directory.newAccount, try encoded(ACMEMessage.NewAccount(contact: ["mailto:\(email)"])))
        case .order: (directory.newOrder, try encoded(ACMEMessage.NewOrder(identifiers: [.init(value: domain)])))
        case .authorization: (authorizations.first ?? "", nil)
        case .challenge: (challengeURL, try encoded(ACMEMessage.Empty()))
        case .finalize: (finalizeURL, try encoded(ACMEMessage.Finalize(csr: Base64URL.encode(signingRequest))))
        case .orderStatus: (orderURL, nil)
        case .certificate: (certificateURL, nil)
        }
    }

    private func encoded(_ value: some Encodable) throws(ACMEFault) -> [UInt8] {
        do {
            return Array(try ACMEAccountKey.encoder.encode(value))
        } catch {
            throw .unexpectedAnswer(server, "\(error)")
        }
    }

    /// RFC 8555, section 6.1, requires https.
    private func checked(_ url: String) throws(ACMEFault) -> String {
        guard url.hasPrefix("https://"), OutgoingFault.isPortUsable(in: url) else {
            throw .unexpectedAnswer(server, "the address \"\(url.prefix(200))\" is not an https address")
        }
        return url
    }

    // MARK: Responses

    private mutating func received(_ response: ACMEResponse, for step: Step) throws(ACMEFault) -> Action {
        nonce = response.nonce
        guard response.status < 300 else {
            guard problem(in: response)?.code == "badNonce", nonceRetries < Self.maximumNonceRetries else {
                throw refusal(response)
            }
            nonceRetries += 1
            return try send(step)
        }
        switch step {
        case .directory:
            directory = try decoded(response, "no directory")
            return try send(.account)
        case .account:
            account = try location(response)
            return try send(.order)
        case .order:
            orderURL = try location(response)
            let order: ACMEMessage.Order = try decoded(response, "no order")
            authorizations = order.authorizations[...]
            return try next(order, after: response)
        case .authorization:
            let authorization: ACMEMessage.Authorization = try decoded(response, "no authorization")
            return try next(authorization, after: response)
        case .challenge:
            return try poll(.authorization, response)
        case .finalize, .orderStatus:
            let order: ACMEMessage.Order = try decoded(response, "no order")
            return try next(order, after: response)
        case .certificate:
            state = .ended
            return .complete(String(decoding: response.body, as: UTF8.self))
        }
    }

    private mutating func next(_ order: ACMEMessage.Order, after response: ACMEResponse) throws(ACMEFault) -> Action {
        finalizeURL = order.finalize
        switch order.status {
        case .pending:
            return authorizations.isEmpty ? try poll(.orderStatus, response) : try send(.authorization)
        case .ready:
            return try send(.finalize)
        case .processing:
            return try poll(.orderStatus, response)
        case .valid:
            guard let certificate = order.certificate else {
                throw .unexpectedAnswer(server, "an order without its certificate")
            }
            certificateURL = certificate
            return try send(.certificate)
        case .invalid, .deactivated, .expired, .revoked:
            throw fault(order.error)
        }
    }

    private mutating func next(_ authorization: ACMEMessage.Authorization, after response: ACMEResponse)
        throws(ACMEFault) -> Action
    {
        let challenge = authorization.challenges.first { $0.type == "http-01" }
        switch authorization.status {
        case .valid:
            authorizations.removeFirst()
            return try send(authorizations.isEmpty ? .orderStatus : .authorization)
        case .pending, .ready, .processing:
            guard let challenge, let token = challenge.token, !token.isEmpty,
                token.utf8.allSatisfy({ $0.isASCIIAlphanumeric || "-_".utf8.contains($0) })
            else { throw .unexpectedAnswer(server, "no http-01 challenge for \(domain)") }
            guard challenge.url != challengeURL else { return try poll(.authorization, response) }
            challengeURL = challenge.url
            state = .publishing
            return .publish(HTTPChallenge(token: token, content: accountKey.keyAuthorization(token: token)))
        case .invalid, .deactivated, .expired, .revoked:
            throw fault(challenge?.error)
        }
    }

    /// Waits as long as the server asks, from 1 to 30 seconds.
    private mutating func poll(_ step: Step, _ response: ACMEResponse) throws(ACMEFault) -> Action {
        let pause = min(max(response.retryAfter ?? .seconds(1), .seconds(1)), .seconds(30))
        waited += pause
        guard waited <= Self.longestWait else { throw .tooSlow(domain) }
        state = .waiting(then: step)
        return .wait(pause)
    }

    private func decoded<Value: Decodable>(_ response: ACMEResponse, _ what: String) throws(ACMEFault) -> Value {
        do {
            return try JSONDecoder().decode(Value.self, from: Data(response.body))
        } catch {
            throw .unexpectedAnswer(server, what)
        }
    }

    private func location(_ response: ACMEResponse) throws(ACMEFault) -> String {
        guard let location = response.location else { throw .unexpectedAnswer(server, "no Location field") }
        return try checked(location)
    }

    private func problem(in response: ACMEResponse) -> ACMEMessage.Problem? {
        try? JSONDecoder().decode(ACMEMessage.Problem.self, from: Data(response.body))
    }

    /// An error that is the response itself.
    private func refusal(_ response: ACMEResponse) -> ACMEFault {
        guard response.status >= 400 else { return .unexpectedAnswer(server, "status \(response.status)") }
        return ACMEFault(
            problem(in: response),
            status: response.status,
            domain: domain,
            server: server,
            retryAfter: response.retryAfter
        )
    }

    /// An error inside an order or a challenge, which has no status of its own.
    private func fault(_ problem: ACMEMessage.Problem?) -> ACMEFault {
        ACMEFault(problem, status: 0, domain: domain, server: server, retryAfter: nil)
    }
}
