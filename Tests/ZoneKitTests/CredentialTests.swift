import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// The user of a program, and how it signs in.
@Suite(.timeLimit(.minutes(15))) struct CredentialTests {
    private func container(_ relay: ScriptedRelay, _ credential: RelayCredential) -> CKContainer {
        CKContainer(
            connection: RelayConnection(
                container: "iCloud.test",
                url: nil,
                credentials: RelayCredentials(apiToken: "abc", credential: credential),
                deviceID: "phone",
                transport: relay
            )
        )
    }

    private let caller = ScriptedRelay.Line.answer(200, #"{"userRecordName":"_alice"}"#)
    private let refused = ScriptedRelay.Line.answer(
        421,
        #"{"serverErrorCode":"AUTHENTICATION_REQUIRED","reason":"request needs authorization"}"#
    )

    @Test func anAccountSignsInWithTheFirstRequestAndAgainAfterARefusal() async throws {
        let relay = ScriptedRelay(
            .answer(200, #"{"ckWebAuthToken":"one","userRecordName":"_alice"}"#),
            caller,
            refused,
            .answer(200, #"{"ckWebAuthToken":"two","userRecordName":"_alice"}"#),
            caller
        )
        let container = container(relay, .account(emailAddress: "alice@example.com", password: "correct horse"))
        #expect(try await container.userRecordID().recordName == "_alice")
        #expect(relay.requests[0].path.hasSuffix("/public/users/signin"))
        #expect(relay.bodies[0].contains(#""emailAddress":"alice@example.com","password":"correct horse""#))
        #expect(!relay.requests[0].query.contains("ckWebAuthToken"))
        #expect(relay.requests[1].query.contains("ckWebAuthToken=one"))
        #expect(try await container.accountStatus() == .available)
        let operations = relay.requests.compactMap { $0.path.split(separator: "/").last }
        #expect(operations == ["signin", "caller", "caller", "signin", "caller"])
        #expect(relay.requests[4].query.contains("ckWebAuthToken=two"))
    }

    /// Another user signs in while a password sign-in runs.
    ///
    /// The renewed token of that sign-in must not replace the new user's.
    @Test func aRenewedTokenOfThePreviousUserIsIgnored() async throws {
        let relay = ScriptedRelay(
            .answer(200, #"{"ckWebAuthToken":"one","userRecordName":"_alice"}"#),
            .answer(
                200,
                #"{"userRecordName":"_alice"}"#,
                headers: ["X-Apple-CloudKit-Web-Auth-Token": "one, renewed"]
            )
        )
        let container = container(relay, .account(emailAddress: "alice@example.com", password: "correct horse"))
        let credentials = try container.session.connection().credentials
        relay.beforeAnswer { credentials.replace(webAuthToken: "bob's") }
        _ = try? await container.userRecordID()
        #expect(credentials.webAuthToken == "bob's")
    }

    /// An answer to the previous user's request must not set the name of the new user.
    @Test func aLateAnswerDoesNotNameTheNewUser() async throws {
        let zones = #"{"zones":[{"zoneID":{"zoneName":"Notes","ownerRecordName":"_alice"},"syncToken":"AA=="}]}"#
        let relay = ScriptedRelay(.answer(200, zones), caller, .answer(200, zones), caller)
        let container = container(relay, .webAuthToken("alice's"))
        let connection = try container.session.connection()
        let asks: [@Sendable () async throws -> Void] = [
            { _ = try await container.privateCloudDatabase.allRecordZones() },
            { _ = try await container.userRecordID() },
        ]
        for ask in asks {
            relay.beforeAnswer {
                connection.credentials.replace(webAuthToken: "bob's")
                connection.caller.forget(generation: connection.credentials.current.generation)
            }
            try await ask()
            #expect(connection.caller.recordName == nil)
        }
        // Answers to the new user's own requests do set it.
        for ask in asks {
            connection.caller.recordName = nil
            try await ask()
            #expect(connection.caller.recordName == "_alice")
        }
    }

    @Test func anIdentityTokenIsRequestedAtEachSignIn() async throws {
        let asked = Mutex(0)
        let relay = ScriptedRelay(.answer(200, #"{"ckWebAuthToken":"one","userRecordName":"_alice"}"#), caller)
        let container = container(
            relay,
            .identityToken {
                asked.withLock { $0 += 1 }
                return "eyJ.token"
            }
        )
        _ = try await container.userRecordID()
        #expect(asked.withLock { $0 } == 1)
        #expect(relay.bodies[0].contains(#""identityToken":"eyJ.token""#))
    }

    /// A failing provider does not tell whether a user is signed in.
    @Test func aFailingIdentityTokenProviderIsNotASignOut() async throws {
        struct Locked: Error {}
        let errors: [(any Error, CKError.Code, CKAccountStatus)] = [
            (URLError(.notConnectedToInternet), .networkFailure, .couldNotDetermine),
            (Locked(), .accountTemporarilyUnavailable, .couldNotDetermine),
            (CKError(.notAuthenticated, "No user."), .notAuthenticated, .noAccount),
        ]
        for (error, code, status) in errors {
            let container = container(ScriptedRelay(), .identityToken { throw error })
            await expect(code) { _ = try await container.userRecordID() }
            #expect(try await container.accountStatus() == status)
        }
    }

    /// A user who signs in with the first request is known by name from that request on.
    @Test func theFirstRecordHasTheCurrentUserAsCreator() async throws {
        let stamp = #"{"timestamp":1,"userRecordName":"_alice","deviceID":"d"}"#
        let relay = ScriptedRelay(
            .answer(200, #"{"ckWebAuthToken":"one","userRecordName":"_alice"}"#),
            caller,
            .answer(
                200,
                #"{"records":[{"recordName":"a","recordType":"Note","recordChangeTag":"1","fields":{},"#
                    + #""created":\#(stamp),"modified":\#(stamp)}]}"#
            )
        )
        let database = container(relay, .account(emailAddress: "alice@example.com", password: "p")).publicCloudDatabase
        let record = try await database.record(for: CKRecord.ID(recordName: "a"))
        #expect(record.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)
    }

    @Test func aWrongPasswordIsTriedOnce() async throws {
        let relay = ScriptedRelay(
            .answer(401, #"{"serverErrorCode":"AUTHENTICATION_FAILED","reason":"Authentication failed"}"#)
        )
        let container = container(relay, .account(emailAddress: "alice@example.com", password: "wrong"))
        await expect(.notAuthenticated) { _ = try await container.userRecordID() }
        #expect(relay.requests.count == 1)
    }

    @Test func anInvalidServerKeyFailsBeforeAnyRequest() async throws {
        let pem = """
            -----BEGIN PRIVATE KEY-----
            MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAQIDBAUGBwgJCgsM
            DQ4PEBESExQVFhcYGRobHB0eHyChRANCAARRWD1dqblxCM9xN3SMJSq3hyx4ORQZ
            -----END PRIVATE KEY-----
            """
        // The key is incomplete: the error must come before any request.
        let relay = ScriptedRelay()
        await expect(.notAuthenticated) {
            _ = try await container(relay, .serverKey(id: "k1", privateKey: pem)).userRecordID()
        }
        #expect(relay.requests.isEmpty)
    }

    @Test func withoutACredentialThereIsNoAccount() async throws {
        let relay = ScriptedRelay()
        #expect(try await container(relay, .nobody).accountStatus() == .noAccount)
    }

    @Test func filesAndVariablesDescribeEndpoints() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        let text = #"""
            {"ZONECAST_URL":"https://relay.example","ZONECAST_ENVIRONMENT":"production","ZONECAST_API_TOKEN":"abc",
             "ZONECAST_EMAIL":"a@example.com","ZONECAST_PASSWORD":"p"}
            """#
        try Data(text.utf8).write(to: file)
        let endpoint = try RelayEndpoint(contentsOf: file)
        #expect(endpoint.url.host == "relay.example" && endpoint.environment == .production)
        guard case .account("a@example.com", "p")? = endpoint.credential else {
            Issue.record("\(String(describing: endpoint.credential))")
            return
        }
        let variables = ["ZONECAST_URL": "http://127.0.0.1:1", "ZONECAST_DEV_USER": "bob"]
        #expect(RelayEndpoint(variables: variables)?.credential?.presetToken == "dev-bob")
    }

    @Test func theUserMayChangeWhileAnEngineRuns() async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice")
        let notes = SyncedNotes(device, isAutomatic: true)
        notes.addZone()
        notes.write("a", "alice's")
        try await within(.seconds(120), "alice's note to be sent") {
            try await notes.signal.until { notes.engine.state.pendingRecordZoneChanges.isEmpty }
        }
        let posted = Mutex(0)
        let observer = NotificationCenter.default.addObserver(forName: .CKAccountChanged, object: nil, queue: nil) {
            _ in
            posted.withLock { $0 += 1 }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let before = try await device.container.userRecordID()
        try await device.container.signIn(.dev(user: "bob"))
        #expect(posted.withLock { $0 } >= 1)
        let after = try await device.container.userRecordID()
        #expect(before != after)
        try await within(.seconds(120), "the engine to find out") {
            try await notes.signal.until { notes.log.contains { $0.hasPrefix("accountChange(switchAccounts") } }
        }
        #expect(try await device.privateDatabase.allRecordZones().map(\.zoneID.zoneName) == ["_defaultZone"])
        try await device.container.signOut()
        #expect(try await device.container.accountStatus() == .noAccount)
    }
}
