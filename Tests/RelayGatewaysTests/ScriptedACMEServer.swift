import Crypto
import Foundation
import Records
import RelayGateways
import SwiftASN1
import Synchronization
import X509

/// An ACME server in this process, which checks every signature and nonce and can be told to fail.
final class ScriptedACMEServer: Sendable {
    enum Step: String, Sendable {
        case directory, nonce, account, order, authorization, challenge, finalize, orderStatus, certificate
    }

    /// A request that breaks RFC 8555.
    struct Violation: Error, CustomStringConvertible {
        var description: String
    }

    private struct State {
        var steps: [Step] = []
        var scripted: [Step: [ACMEResponse]] = [:]
        var nonces: Set<String> = []
        var nonceCount = 0
        var accountKey: P256.Signing.PublicKey?
        var accountKeys: Set<Data> = []
        var thumbprint = ""
        var published: [String: String] = [:]
        var isChallenged = false
        var polls = 0
        var request: CertificateSigningRequest?
        var orderedDomain = ""
        var certificates = 0
    }

    static let address = "https://acme.test/dir"
    private static let token = "token-1"

    private let state = Mutex(State())
    private let issuer = P256.Signing.PrivateKey()
    private let now: @Sendable () -> Date
    private let lifetime: TimeInterval
    /// Whether certificates are for a key of the server instead of the client's.
    private let usesOtherKey: Bool

    init(
        lifetime: TimeInterval = 90 * 86_400,
        usesOtherKey: Bool = false,
        now: @escaping @Sendable () -> Date = { Date(timeIntervalSince1970: 1_800_000_000) }
    ) {
        self.lifetime = lifetime
        self.usesOtherKey = usesOtherKey
        self.now = now
    }

    var steps: [Step] { state.withLock { $0.steps } }
    var certificates: Int { state.withLock { $0.certificates } }
    /// The number of different account keys.
    var accounts: Int { state.withLock { $0.accountKeys.count } }

    /// The next request of this step is answered with this response.
    func willAnswer(_ step: Step, _ status: Int, _ body: String, retryAfter: Duration? = nil) {
        let response = ACMEResponse(status: status, retryAfter: retryAfter, body: Array(body.utf8))
        state.withLock { $0.scripted[step, default: []].append(response) }
    }

    func willRefuse(_ step: Step, _ status: Int, _ type: String, _ detail: String, retryAfter: Duration? = nil) {
        willAnswer(step, status, Self.problem(type, detail), retryAfter: retryAfter)
    }

    static func problem(_ type: String, _ detail: String) -> String {
        #"{"type":"urn:ietf:params:acme:error:\#(type)","detail":"\#(detail)"}"#
    }

    func publish(_ challenge: HTTPChallenge) {
        state.withLock { $0.published[challenge.token] = challenge.content }
    }

    func unpublish() { state.withLock { $0.published = [:] } }

    @Sendable func respond(_ request: ACMERequest) throws -> ACMEResponse {
        try state.withLock { state in
            let step = try Self.step(of: request.url)
            state.steps.append(step)
            var payload: [UInt8] = []
            if case .post(let body) = request.method { payload = try Self.verify(body, request.url, step, &state) }
            var response: ACMEResponse
            if state.scripted[step]?.isEmpty == false, let scripted = state.scripted[step]?.removeFirst() {
                response = scripted
            } else {
                response = try answer(step, payload, &state)
            }
            if step != .directory {
                state.nonceCount += 1
                let nonce = "nonce-\(state.nonceCount)"
                state.nonces.insert(nonce)
                response.nonce = nonce
            }
            return response
        }
    }

    private static func step(of url: String) throws -> Step {
        let name = url.split(separator: "/").last.map(String.init) ?? ""
        guard url.hasPrefix("https://acme.test/") else { throw Violation(description: "unknown address \(url)") }
        if name == "dir" { return .directory }
        guard let step = Step(rawValue: name) else { throw Violation(description: "unknown address \(url)") }
        return step
    }

    // MARK: Signatures

    private struct Body: Decodable { var protected, payload, signature: String }
    private struct Key: Decodable { var kty, crv, x, y: String }
    private struct Header: Decodable {
        var alg, nonce, url: String
        var jwk: Key?
        var kid: String?
    }

    private static func verify(_ body: [UInt8], _ url: String, _ step: Step, _ state: inout State) throws -> [UInt8] {
        let body = try JSONDecoder().decode(Body.self, from: Data(body))
        let header = try JSONDecoder().decode(Header.self, from: Data(Base64URL.decode(body.protected.utf8) ?? []))
        guard header.alg == "ES256", header.url == url else { throw Violation(description: "header \(header)") }
        guard state.nonces.remove(header.nonce) != nil else { throw Violation(description: "nonce \(header.nonce)") }
        if let jwk = header.jwk {
            guard step == .account, header.kid == nil else { throw Violation(description: "jwk in \(step)") }
            let point = (Base64URL.decode(jwk.x.utf8) ?? []) + (Base64URL.decode(jwk.y.utf8) ?? [])
            state.accountKey = try P256.Signing.PublicKey(rawRepresentation: point)
            state.accountKeys.insert(Data(point))
            let canonical = #"{"crv":"P-256","kty":"EC","x":"\#(jwk.x)","y":"\#(jwk.y)"}"#
            state.thumbprint = Base64URL.encode(Array(SHA256.hash(data: Data(canonical.utf8))))
        } else if header.kid != "https://acme.test/accounts/1" {
            throw Violation(description: "kid \(header.kid ?? "nil")")
        }
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: Base64URL.decode(body.signature.utf8) ?? [])
        guard state.accountKey?.isValidSignature(signature, for: Data("\(body.protected).\(body.payload)".utf8)) == true
        else { throw Violation(description: "signature") }
        return Base64URL.decode(body.payload.utf8) ?? []
    }

    // MARK: Answers

    private func answer(_ step: Step, _ payload: [UInt8], _ state: inout State) throws -> ACMEResponse {
        switch step {
        case .directory:
            let members = ["newNonce": "nonce", "newAccount": "account", "newOrder": "order"]
                .map { #""\#($0)":"https://acme.test/\#($1)""# }
            return ACMEResponse(status: 200, body: Array("{\(members.joined(separator: ","))}".utf8))
        case .nonce:
            return ACMEResponse(status: 200)
        case .account:
            struct Account: Decodable {
                var termsOfServiceAgreed: Bool
                var contact: [String]
            }
            let account = try JSONDecoder().decode(Account.self, from: Data(payload))
            guard account.termsOfServiceAgreed, account.contact == ["mailto:ops@example.org"] else {
                throw Violation(description: "\(account)")
            }
            return ACMEResponse(status: 201, location: "https://acme.test/accounts/1", body: Array("{}".utf8))
        case .order:
            struct Order: Decodable { var identifiers: [ACMEMessage.Identifier] }
            state.orderedDomain =
                try JSONDecoder().decode(Order.self, from: Data(payload)).identifiers.first?.value ?? ""
            (state.isChallenged, state.polls, state.request) = (false, 0, nil)
            var response = order("pending")
            (response.status, response.location) = (201, "https://acme.test/orderStatus")
            return response
        case .authorization:
            guard state.isChallenged else { return authorization("pending") }
            state.polls += 1
            guard state.polls > 1 else { return authorization("pending", retryAfter: .seconds(3)) }
            return authorization("valid")
        case .challenge:
            guard String(decoding: payload, as: UTF8.self) == "{}",
                state.published[Self.token] == "\(Self.token).\(state.thumbprint)"
            else { throw Violation(description: "published \(state.published)") }
            state.isChallenged = true
            return ACMEResponse(status: 200, body: Array("{}".utf8))
        case .finalize:
            struct Finalize: Decodable { var csr: String }
            let request = try JSONDecoder().decode(Finalize.self, from: Data(payload))
            state.request = try CertificateSigningRequest(
                derEncoded: Base64URL.decode(request.csr.utf8) ?? []
            )
            return order("processing")
        case .orderStatus:
            return order(state.request != nil ? "valid" : state.polls > 1 ? "ready" : "pending")
        case .certificate:
            guard let request = state.request else { throw Violation(description: "no signing request") }
            state.certificates += 1
            let text = try certificate(for: request, serial: state.certificates).serializeAsPEM().pemString
            return ACMEResponse(status: 200, body: Array((text + "\n").utf8))
        }
    }

    private func order(_ status: String) -> ACMEResponse {
        let certificate = status == "valid" ? #","certificate":"https://acme.test/certificate""# : ""
        let links = #""authorizations":["https://acme.test/authorization"],"finalize":"https://acme.test/finalize""#
        return ACMEResponse(status: 200, body: Array(#"{"status":"\#(status)",\#(links)\#(certificate)}"#.utf8))
    }

    private func authorization(_ status: String, retryAfter: Duration? = nil) -> ACMEResponse {
        let challenges = [
            #"{"type":"dns-01","url":"https://acme.test/other","token":"other"}"#,
            #"{"type":"http-01","url":"https://acme.test/challenge","token":"\#(Self.token)"}"#,
        ]
        let body = #"{"status":"\#(status)","challenges":[\#(challenges.joined(separator: ","))]}"#
        return ACMEResponse(status: 200, retryAfter: retryAfter, body: Array(body.utf8))
    }

    static func invalidAuthorization(_ type: String, _ detail: String) -> String {
        let challenge =
            #"{"type":"http-01","url":"https://acme.test/challenge","token":"t","error":\#(problem(type, detail))}"#
        return #"{"status":"invalid","challenges":[\#(challenge)]}"#
    }

    private func certificate(for request: CertificateSigningRequest, serial: Int) throws -> Certificate {
        let names = try request.attributes.flatMap { attribute in
            try Array(ExtensionRequest(attribute).extensions.subjectAlternativeNames ?? .init())
        }
        guard case .dnsName = names.first else { throw Violation(description: "names \(names)") }
        let name = try DistinguishedName { CommonName("Scripted CA") }
        return try Certificate(
            version: .v3,
            serialNumber: .init(serial),
            publicKey: usesOtherKey ? Certificate.PrivateKey(issuer).publicKey : request.publicKey,
            notValidBefore: now(),
            notValidAfter: now() + lifetime,
            issuer: name,
            subject: DistinguishedName(),
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions { SubjectAlternativeNames(names) },
            issuerPrivateKey: Certificate.PrivateKey(issuer)
        )
    }
}
