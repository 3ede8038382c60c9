import Crypto
import CryptoExtras
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayGateways
import Testing
import Wire

@Suite struct ForeignSignInTests {
    let foreign: ForeignWorld

    init() throws { foreign = try ForeignWorld() }

    private var container: ContainerID { foreign.world.home.container }

    private func fault(_ token: String, _ exchange: ForeignSignIn? = nil) async throws -> TokenFault? {
        let exchange = try exchange ?? foreign.exchange()
        do throws(TokenFault) {
            _ = try await exchange.person(of: token, in: container)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [(TokenIssuer.Algorithm.es256, "p"), (.edDSA, "e"), (.rs256, "r")])
    func aPublishedKeyOfEachKindIsAccepted(algorithm: TokenIssuer.Algorithm, key: String) async throws {
        try foreign.trust()
        let exchange = try foreign.exchange()
        for kid in [key, nil] {
            let person = try await exchange.person(of: try foreign.token(algorithm, key: kid), in: container)
            #expect(person.subject == "7" && person.issuer == ForeignWorld.name)
            #expect(person.email == "ada@example.org")
            #expect(person.name == PersonName(given: "Ada", family: "Byron"))
        }
        #expect(foreign.source.asked == 1)
    }

    @Test func aKeyFileMayContainASetAKeyAPEMOrASecret() async throws {
        let pem = foreign.p256.publicKey.pemRepresentation
        let edPEM =
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA"
            + Base64.encode(Array(foreign.ed25519.publicKey.rawRepresentation)) + "\n-----END PUBLIC KEY-----\n"
        let cases: [(String, TokenIssuer.Algorithm)] = [
            (foreign.jwks([("p", .es256)]), .es256), (pem, .es256), (foreign.rsa.publicKey.pemRepresentation, .rs256),
            (edPEM, .edDSA), (String(decoding: foreign.secret, as: UTF8.self) + "\n", .hs256),
            (foreign.jwks([(nil, .hs256)]), .hs256),
        ]
        for (index, (content, algorithm)) in cases.enumerated() {
            foreign.source.set("/keys/\(index)", content)
            try foreign.trust([algorithm], keys: .file("/keys/\(index)"))
            #expect(try await fault(try foreign.token(algorithm)) == nil, "case \(index)")
        }
    }

    @Test func everyFaultOfATokenIsDetected() async throws {
        try foreign.trust()
        let now = foreign.world.clock.now.milliseconds / 1000
        let cases: [(String, TokenFault)] = [
            (try foreign.token(["iss": #""https://evil.example""#]), .unknownIssuer),
            (try foreign.token(["iss": nil]), .claim("iss")),
            (try foreign.token(["aud": #""other""#]), .audience),
            (try foreign.token(["aud": #"["other"]"#]), .audience),
            (try foreign.token(["aud": nil]), .audience),
            (try foreign.token(["exp": nil]), .claim("exp")),
            (try foreign.token(["exp": #""\#(now + 300)""#]), .claim("exp")),
            (try foreign.token(["exp": "\(now - 60)"]), .expired),
            (try foreign.token(["nbf": "\(now + 61)"]), .notYetValid),
            (try foreign.token(["iat": "\(now + 61)"]), .notYetValid),
            (try foreign.token(["nbf": #""soon""#]), .claim("nbf")),
            (try foreign.token(["sub": nil]), .claim("sub")),
            (try foreign.token(["sub": #""""#]), .claim("sub")),
            (try foreign.token(["sub": #""a\n7""#]), .claim("sub")),
            (try foreign.token(["sub": "7"]), .claim("sub")),
            (try foreign.token(key: "x"), .noKey("x")),
            // The key of this ID is of another kind: a key is used only for its own algorithm.
            (try foreign.token(.es256, key: "e"), .noKey("e")),
            (try foreign.token(header: #"{"alg":"ES256","kid":"p","crit":["exp"]}"#), .criticalHeader),
            (try foreign.token(.es256, key: "r", header: #"{"alg":"RS256","kid":"r"}"#), .signature),
        ]
        for (index, (token, expected)) in cases.enumerated() {
            #expect(try await fault(token) == expected, "case \(index)")
        }
        for aud in [#"["other","notes"]"#, #""notes""#] {
            #expect(try await fault(try foreign.token(["aud": aud])) == nil)
        }
        for edge in [["exp": "\(now - 59)"], ["nbf": "\(now + 60)"], ["exp": "\(now).5"]] {
            #expect(try await fault(try foreign.token(edge)) == nil)
        }
    }

    @Test(arguments: ["none", "None", "NONE", "nOnE", "", "HS256", "HS512", "ES384", "PS256", "es256"])
    func onlyConfiguredAlgorithmsAreAccepted(name: String) async throws {
        try foreign.trust()
        let header = #"{"alg":"\#(name)","kid":"p"}"#
        let signed = try foreign.token(header: header)
        #expect(try await fault(signed) == .algorithm(name))
        let unsigned = signed.split(separator: ".").prefix(2).joined(separator: ".") + "."
        #expect(try await fault(unsigned) == .algorithm(name))
    }

    @Test func aPublicKeyIsNeverUsedAsASecret() async throws {
        // A known attack: sign with HMAC, using the text of the published key as the secret.
        let pem = foreign.rsa.publicKey.pemRepresentation
        foreign.source.set("/key.pem", pem)
        try foreign.trust([.rs256, .hs256], keys: .file("/key.pem"))
        let message = try foreign.token(.hs256, key: nil).split(separator: ".").prefix(2).joined(separator: ".")
        let tag = HMAC<SHA256>.authenticationCode(for: Array(message.utf8), using: SymmetricKey(data: Array(pem.utf8)))
        #expect(try await fault(message + "." + ForeignWorld.text(Array(tag))) == .noKey(nil))
        // A secret among published keys is ignored.
        foreign.source.set(ForeignWorld.address, foreign.jwks([("s", .hs256), ("p", .es256)]))
        try foreign.trust([.es256, .hs256])
        #expect(try await fault(try foreign.token(.hs256, key: "s")) == .algorithm("HS256"))
    }

    @Test func malformedTokensAreRefused() async throws {
        try foreign.trust()
        let good = try foreign.token()
        let parts = good.split(separator: ".").map(String.init)
        let cases = [
            "", ".", "..", "a.b.c", parts[0], parts[0] + "." + parts[1], good + ".x", good + "=", " " + good,
            parts[0] + "." + parts[1] + "." + parts[2] + "+", parts[1] + "." + parts[0] + "." + parts[2],
            try foreign.token(header: #"{"alg":"ES256","alg":"none"}"#), try foreign.token(header: #"{"kid":"p"}"#),
            try foreign.token(header: #"["ES256"]"#), String(repeating: "A", count: 20_000),
            try foreign.token(["iss": #""a","iss":"b""#]),
        ]
        for (index, text) in cases.enumerated() {
            let found = try await fault(text)
            #expect(found == .malformed || found == .claim("iss"), "case \(index)")
        }
    }

    @Test("values on which jwt-kit's header and claim types trap get an answer")
    func valuesOutOfRange() async throws {
        try foreign.trust()
        let cases: [(String, TokenFault?)] = [
            (try foreign.token(header: #"{"alg":"ES256","kid":"p","x":1e300,"y":[-1e300]}"#), nil),
            (try foreign.token(header: #"{"alg":"ES256","kid":1e300}"#), .malformed),
            (try foreign.token(["x": "1e300", "exp": "1e300"]), nil),
            (try foreign.token(["exp": "-1e300"]), .expired),
            (try foreign.token(["nbf": "1e300"]), .notYetValid),
            (try foreign.token(["aud": "[]"]), .audience),
            (try foreign.token(["aud": "[[]]"]), .audience),
            (try foreign.token(["aud": "{}"]), .audience),
            (try foreign.token(["email_verified": "[]"]), nil),
        ]
        for (index, (token, expected)) in cases.enumerated() {
            #expect(try await fault(token) == expected, "case \(index)")
        }
    }

    @Test func changingAnyLetterInvalidatesAToken() async throws {
        try foreign.trust()
        let exchange = try foreign.exchange()
        let good = Array(try foreign.token().utf8)
        for index in stride(from: 0, to: good.count, by: 7) where good[index] != UInt8(ascii: ".") {
            var bad = good
            bad[index] = bad[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            // Some bits of a part's last letter have no meaning.
            guard index + 1 < good.count, good[index + 1] != UInt8(ascii: ".") else { continue }
            #expect(try await fault(String(decoding: bad, as: UTF8.self), exchange) != nil, "letter \(index)")
        }
    }

    @Test func onlyVerifiedClaimsAreUsed() async throws {
        func person(_ changing: [String: String?]) async throws -> ExternalIdentity {
            try await foreign.exchange().person(of: try foreign.token(changing), in: container)
        }
        try foreign.trust()
        #expect(try await person(["email_verified": nil]).email == nil)
        #expect(try await person(["email_verified": "false"]).email == nil)
        #expect(try await person(["email_verified": #""true""#]).email == "ada@example.org")
        #expect(try await person(["phone_number": #""+49 30 1234567""#]).phone == nil)
        let phone = ["phone_number": #""+49 30 1234567""#, "phone_number_verified": "true"]
        #expect(try await person(phone).phone == "+49301234567")
        let whole = try await person(["given_name": nil, "family_name": nil, "name": #""Ada King Byron""#])
        #expect(whole.name == PersonName(given: "Ada King", family: "Byron"))
        try foreign.trust(claims: [.email: "mail", .givenName: "vorname"], trustsContacts: true)
        let mapped = try await person(["mail": #""a@b.example""#, "vorname": #""Augusta""#, "email_verified": nil])
        #expect(mapped.email == "a@b.example")
        #expect(mapped.name.given == "Augusta")
    }

    @Test func unknownKeyIDsFetchKeysAtMostOncePerMinute() async throws {
        try foreign.trust()
        foreign.source.set(ForeignWorld.address, foreign.jwks([("e", .edDSA)]))
        let exchange = try foreign.exchange()
        #expect(try await fault(try foreign.token(.edDSA, key: "e"), exchange) == nil)
        for _ in 0..<20 { #expect(try await fault(try foreign.token(), exchange) == .noKey("p")) }
        #expect(foreign.source.asked == 1)
        foreign.source.set(ForeignWorld.address, foreign.jwks([("e", .edDSA), ("p", .es256)]))
        foreign.world.clock.advance(.seconds(60))
        for _ in 0..<20 { #expect(try await fault(try foreign.token(), exchange) == nil) }
        #expect(foreign.source.asked == 2)
        for _ in 0..<20 { #expect(try await fault(try foreign.token(key: "made up"), exchange) != nil) }
        #expect(foreign.source.asked == 2)
    }

    @Test func keysAreUsedForADayWhileTheIssuerIsDown() async throws {
        try foreign.trust()
        let exchange = try foreign.exchange()
        #expect(try await fault(try foreign.token(), exchange) == nil)
        foreign.source.set(ForeignWorld.address, nil)
        foreign.world.clock.advance(.seconds(23 * 3600))
        #expect(try await fault(try foreign.token(), exchange) == nil)
        foreign.world.clock.advance(.seconds(3600))
        #expect(try await fault(try foreign.token(), exchange) == .keys("nothing there"))
    }

    @Test func aWithdrawnKeyIsRefusedAfterTheNextFetch() async throws {
        try foreign.trust()
        let exchange = try foreign.exchange()
        #expect(try await fault(try foreign.token(), exchange) == nil)
        foreign.source.set(ForeignWorld.address, foreign.jwks([("e", .edDSA)]))
        foreign.world.clock.advance(.seconds(3600))
        #expect(try await fault(try foreign.token(), exchange) == .noKey("p"))
    }

    // MARK: Rotation

    /// The same issuer with other keys.
    private func successor() throws -> ForeignWorld { try ForeignWorld() }

    @Test("a key replaced with issuer add is used at once, and the old one is refused", arguments: [true, false])
    func replacedKeys(inFile: Bool) async throws {
        let (next, exchange) = (try successor(), try foreign.exchange())
        let place: TokenIssuer.KeyLocation = inFile ? .file("/keys/issuer") : .url(ForeignWorld.address)
        func publish(_ keys: String?) throws {
            foreign.source.set(inFile ? "/keys/issuer" : ForeignWorld.address, keys)
            try foreign.trust(keys: place)
        }
        // With key IDs, without them, and with the same ID for both keys.
        for id in ["p", nil, "other"] {
            let (old, new) = (try foreign.token(key: id), try next.token(key: id))
            try publish(foreign.jwks([(id, .es256)]))
            #expect(try await fault(old, exchange) == nil)
            #expect(try await fault(new, exchange) == .signature)
            try publish(next.jwks([(id, .es256)]))
            for _ in 0..<3 {
                #expect(try await fault(new, exchange) == nil)
                #expect(try await fault(old, exchange) == .signature)
            }
        }
        // While the new keys cannot be fetched, keys from before the change are not used either.
        let new = try next.token()
        try publish(nil)
        #expect(try await fault(new, exchange) == .keys("nothing there"))
        try publish(next.jwks([("p", .es256)]))
        #expect(try await fault(new, exchange) == nil)
    }

    @Test("a key added with issuer add at another place or for another algorithm is used at once")
    func replacedPlaces() async throws {
        let (next, exchange) = (try successor(), try foreign.exchange())
        try foreign.trust()
        let old = try foreign.token()
        #expect(try await fault(old, exchange) == nil)
        foreign.source.set("/keys/next", next.p256.publicKey.pemRepresentation)
        try foreign.trust(keys: .file("/keys/next"))
        #expect(try await fault(try next.token(), exchange) == nil)
        #expect(try await fault(old, exchange) == .signature)
        try foreign.trust()
        #expect(try await fault(old, exchange) == nil)
        try foreign.trust([.edDSA])
        #expect(try await fault(old, exchange) == .algorithm("ES256"))
    }

    @Test("the keys are fetched once more after a signature fails, at most once a minute", arguments: ["p", nil])
    func refetchingKeys(id: String?) async throws {
        let (next, exchange) = (try successor(), try foreign.exchange())
        try foreign.trust()
        foreign.source.set(ForeignWorld.address, foreign.jwks([(id, .es256)]))
        let (old, new) = (try foreign.token(key: id), try next.token(key: id))
        #expect(try await fault(old, exchange) == nil)
        foreign.source.set(ForeignWorld.address, next.jwks([(id, .es256)]))
        // The issuer was asked a moment ago.
        #expect(try await fault(new, exchange) == .signature)
        #expect(foreign.source.asked == 1)
        foreign.world.clock.advance(.seconds(60))
        #expect(try await fault(new, exchange) == nil)
        #expect(try await fault(old, exchange) == .signature)
        #expect(foreign.source.asked == 2)
        foreign.world.clock.advance(.seconds(60))
        for _ in 0..<20 { #expect(try await fault(old, exchange) == .signature) }
        #expect(foreign.source.asked == 3)
    }

    @Test(
        "a replaced key file is used without a command, and forged tokens do not make the relay read it each time"
    )
    func replacedFiles() async throws {
        let (next, exchange) = (try successor(), try foreign.exchange())
        foreign.source.set("/key.pem", foreign.p256.publicKey.pemRepresentation)
        try foreign.trust([.es256], keys: .file("/key.pem"))
        let (old, new) = (try foreign.token(), try next.token())
        #expect(try await fault(old, exchange) == nil)
        foreign.source.set("/key.pem", next.p256.publicKey.pemRepresentation)
        #expect(try await fault(new, exchange) == nil)
        #expect(try await fault(old, exchange) == .signature)
        for _ in 0..<20 { #expect(try await fault(old, exchange) == .signature) }
        #expect(foreign.source.asked == 2)
    }

    // MARK: Names of algorithms

    @Test("Ed25519 and EdDSA name the same algorithm in keys, tokens and commands", arguments: ["Ed25519", "EdDSA"])
    func bothNames(name: String) async throws {
        let point = ForeignWorld.text(Array(foreign.ed25519.publicKey.rawRepresentation))
        let key = #"{"kid":"e","kty":"OKP","crv":"Ed25519","alg":"\#(name)","use":"sig","x":"\#(point)"}"#
        foreign.source.set(ForeignWorld.address, #"{"keys":[\#(key)]}"#)
        foreign.source.set("/key.json", key)
        for keys in [TokenIssuer.KeyLocation.url(ForeignWorld.address), .file("/key.json")] {
            try foreign.trust([.edDSA], keys: keys)
            for header in ["Ed25519", "EdDSA"] {
                let token = try foreign.token(.edDSA, header: #"{"alg":"\#(header)","kid":"e"}"#)
                #expect(try await fault(token) == nil, "\(header)")
            }
        }
        #expect(TokenIssuer.Algorithm(named: name) == .edDSA)
        try foreign.trust([.es256])
        let token = try foreign.token(.edDSA, header: #"{"alg":"\#(name)","kid":"e"}"#)
        #expect(try await fault(token) == .algorithm(name))
    }

    @Test("a key with the alg of another algorithm is not used", arguments: ["Ed448", "ES256", "ed25519", "Ed25519ph"])
    func otherNames(name: String) async throws {
        let point = ForeignWorld.text(Array(foreign.ed25519.publicKey.rawRepresentation))
        let key = #"{"kid":"e","kty":"OKP","crv":"Ed25519","alg":"\#(name)","x":"\#(point)"}"#
        foreign.source.set("/key.json", key)
        try foreign.trust([.edDSA], keys: .file("/key.json"))
        #expect(
            try await fault(try foreign.token(.edDSA, key: "e"))
                == .keys("None of the keys is of a supported kind.")
        )
    }

    // MARK: Secrets

    @Test("a binary secret is used byte for byte, and a text without its byte order mark and line ends")
    func secretsInFiles() async throws {
        let letters = Array("a secret that is long enough for HS256".utf8)
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let zeros = [UInt8](repeating: 0, count: 32)
        let cases: [(file: [UInt8], secret: [UInt8])] = [
            (letters, letters), (letters + [0x0A], letters), (letters + [0x0D, 0x0A], letters),
            (mark + letters + [0x0A], letters), (letters + Array(" \u{FC}\n".utf8), letters + Array(" \u{FC}".utf8)),
            // Not text: bytes that are invalid UTF-8, or control characters.
            (zeros + [0xFF, 0x0A], zeros + [0xFF, 0x0A]), (zeros + [0x0D], zeros + [0x0D]),
            ([0x7B] + zeros + [0x0A, 0x0A], [0x7B] + zeros + [0x0A, 0x0A]), (mark + zeros, mark + zeros),
            ([0x0A, 0x20] + zeros + [0x7F], [0x0A, 0x20] + zeros + [0x7F]),
        ]
        for (index, (file, secret)) in cases.enumerated() {
            foreign.source.set("/secret", bytes: file)
            foreign.secret = secret
            try foreign.trust([.hs256], keys: .file("/secret"))
            #expect(try await fault(try foreign.token(.hs256, key: nil)) == nil, "case \(index)")
        }
        // Text that begins like a key set is parsed as one, so that a published key never serves as a secret.
        foreign.source.set("/secret", #"{"keys": [ and so on, for more than 32 bytes"#)
        #expect(try await fault(try foreign.token(.hs256, key: nil)) == .keys("The keys are not a JSON object."))
    }

    @Test("a byte order mark before keys in a file or at an address is ignored")
    func marksBeforeKeys() async throws {
        let mark = "\u{FEFF}"
        for (content, algorithm) in [
            (foreign.jwks([("p", .es256)]), TokenIssuer.Algorithm.es256),
            (foreign.p256.publicKey.pemRepresentation, .es256), (foreign.jwks([(nil, .hs256)]), .hs256),
        ] {
            foreign.source.set("/keys", mark + content)
            try foreign.trust([algorithm], keys: .file("/keys"))
            #expect(try await fault(try foreign.token(algorithm)) == nil)
        }
        foreign.source.set(ForeignWorld.address, mark + foreign.jwks([("p", .es256)]))
        try foreign.trust()
        #expect(try await fault(try foreign.token()) == nil)
    }

    @Test func anIdentityTokenIsExchangedForAWebToken() async throws {
        try foreign.trust()
        let relay = try foreign.relay()
        let first = try await signIn(relay, try foreign.token())
        let webToken = try #require(first.json.text("ckWebAuthToken"))
        let user = try #require(first.json.text("userRecordName"))
        #expect(try first.json.required("expires").int64() == foreign.world.clock.now.milliseconds + 1_800_000)
        let me = await relay.respond(
            to: foreign.world.request(apiToken: foreign.world.apiToken, webToken: webToken)
        )
        #expect(me.status == .ok)
        #expect(String(decoding: me.body, as: UTF8.self).contains(user))
        // The same person is the same user, and gets a longer sign-in on request.
        let again = try await signIn(relay, try foreign.token(), extra: #","keepSignedIn":true"#)
        #expect(again.json.text("userRecordName") == user)
        #expect(try again.json.required("expires").int64() > foreign.world.clock.now.milliseconds + 1_800_000)
        let other = try await signIn(relay, try foreign.token(["sub": #""8""#]))
        #expect(other.json.text("userRecordName") != user)
        // Signing out ends that sign-in only.
        func ask(_ operation: String, _ token: String) async -> Int {
            var request = foreign.world.request(apiToken: foreign.world.apiToken, webToken: token)
            request.method = .post
            request.path = request.path.replacing("users/caller", with: operation)
            return await relay.respond(to: request).status.code
        }
        #expect(await ask("users/signout", webToken) == 200)
        #expect(await ask("users/caller", webToken) == 421)
        #expect(await ask("users/caller", try #require(again.json.text("ckWebAuthToken"))) == 200)
    }

    @Test func anAppLearnsOnlyThatTheSignInFailed() async throws {
        try foreign.trust()
        let relay = try foreign.relay()
        let person = try foreign.world.store.account(
            for: ExternalIdentity(issuer: ForeignWorld.name, subject: "9", email: nil, phone: nil, name: PersonName())
        )
        try foreign.world.store.setDisabled(true, of: person.id)
        let tokens = [
            "nonsense", try foreign.token(["exp": "1"]), try foreign.token(["iss": #""other""#]),
            try foreign.token(header: #"{"alg":"none"}"#), try foreign.token(["sub": #""9""#]),
        ]
        for token in tokens {
            let answer = try await signIn(relay, token)
            #expect(answer.status == 401)
            #expect(answer.json.text("reason") == "Authentication failed")
        }
        // Another container has no trusted issuer.
        let elsewhere = try foreign.world.store.addAPIToken(
            in: foreign.world.elsewhere,
            name: "",
            notes: "",
            callbackURL: nil,
            allowedOrigins: []
        ).text
        let answer = try await signIn(relay, try foreign.token(), apiToken: elsewhere, in: foreign.world.elsewhere)
        #expect(answer.status == 401)
    }

    private func signIn(
        _ relay: Relay,
        _ token: String,
        extra: String = "",
        apiToken: String? = nil,
        in home: ContainerEnvironment? = nil
    ) async throws -> Answer {
        let home = home ?? foreign.world.home
        let response = await relay.respond(
            to: APIRequest(
                method: .post,
                path: "/database/1/\(home.container)/development/public/users/signin",
                query: "ckAPIToken=\(apiToken ?? foreign.world.apiToken)",
                body: Array(#"{"identityToken":"\#(token)"\#(extra)}"#.utf8)
            )
        )
        return Answer(
            status: response.status.code,
            json: try JSONDocument(parsing: response.body).root,
            response: response
        )
    }
}
