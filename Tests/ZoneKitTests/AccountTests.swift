import Foundation
import Records
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// The account status when it cannot be determined at once.
@Suite(.timeLimit(.minutes(15))) struct AccountTests {
    private let relay: TestRelay
    private let phone: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
    }

    /// A program that could not determine the account at launch waits for `CKAccountChanged`.
    @Test func theAccountIsDeterminedOnceTheNetworkIsBack() async throws {
        let posted = Mutex(0)
        let center = NotificationCenter.default
        let observer = center.addObserver(forName: .CKAccountChanged, object: nil, queue: nil) { _ in
            posted.withLock { $0 += 1 }
        }
        defer { center.removeObserver(observer) }
        phone.network.cut()
        #expect(try await phone.container.accountStatus() == .couldNotDetermine)
        let (status, error) = await withCheckedContinuation {
            (done: CheckedContinuation<(CKAccountStatus, CKError.Code?), Never>) in
            phone.container.accountStatus { done.resume(returning: ($0, ($1 as? CKError)?.code)) }
        }
        #expect(status == .couldNotDetermine && error == .networkUnavailable)
        phone.network.heal()
        await relay.advance(by: .seconds(600))
        #expect(phone.connection.caller.recordName != nil)
        // Other tests post it too, so this only shows that it was posted at all.
        #expect(posted.withLock { $0 } > 0)
        let asked = phone.network.operations.count
        await relay.advance(by: .seconds(3_600))
        #expect(phone.network.operations.count == asked, "the container asked again although the account is known")
    }

    @Test func aSignOutIsReportedWithoutANetwork() async throws {
        let notes = SyncedNotes(phone)
        notes.addZone()
        try await notes.engine.sendChanges()
        phone.network.cut()
        try await phone.container.signOut()
        await expect(.notAuthenticated) { try await notes.engine.fetchChanges() }
        #expect(notes.log.last?.hasPrefix("accountChange(signOut") == true, "\(notes.log)")
    }

    /// Programs delete the data of a removed account and keep the data of an account that must sign in again.
    @Test func anExpiredSignInIsTemporarilyUnavailableNotNoAccount() async throws {
        try await phone.signIn()
        #expect(try await phone.container.accountStatus() == .available)
        try await phone.expireSignIn()
        #expect(try await phone.container.accountStatus() == .temporarilyUnavailable)
        let (status, error) = await withCheckedContinuation {
            (done: CheckedContinuation<(CKAccountStatus, (any Error)?), Never>) in
            phone.container.accountStatus { done.resume(returning: ($0, $1)) }
        }
        #expect(status == .temporarilyUnavailable && error == nil)
        await expect(.notAuthenticated) { _ = try await phone.privateDatabase.allRecordZones() }
        try await phone.signIn()
        #expect(try await phone.container.accountStatus() == .available)
        try await phone.container.signOut()
        #expect(try await phone.container.accountStatus() == .noAccount)
    }

    /// A temporary failure must not stop the engine for good.
    @Test(arguments: [401, 403, 407, 503]) func aTemporarySignInFailureIsRetried(_ status: Int) async throws {
        let notes = SyncedNotes(phone, isAutomatic: true)
        notes.addZone()
        notes.write("a", "1")
        try await within(.seconds(300), "the first note to be sent") {
            try await notes.signal.until { notes.engine.state.pendingRecordZoneChanges.isEmpty }
        }
        for number in 1...3 {
            phone.network.fail(request: number, of: "users/caller", by: .answered(status: status, body: "no"))
        }
        try await phone.signIn()
        notes.write("b", "2")
        try await within(.seconds(300), "the second note to be sent") {
            try await notes.signal.until { notes.engine.state.pendingRecordZoneChanges.isEmpty }
        }
    }
}

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

/// User IDs from records can be used again.
///
/// The current user's ID has the name that means the current user.
@Suite struct CurrentUserIDTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase
    let name: String

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.publicDatabase
        name = try await relay.device(of: "alice", named: "laptop").container.userRecordID().recordName
    }

    /// The creator of a new record of this name, as seen by alice.
    private func creator(of name: String, in database: CKDatabase) async throws -> CKRecord.ID {
        let record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: name))
        let creator = try #require(try await database.save(record).creatorUserRecordID)
        #expect(creator.recordName == CKCurrentUserDefaultName)
        return creator
    }

    @Test(arguments: [CKDatabase.Scope.public, .private])
    func creatorIDsWorkInPredicates(scope: CKDatabase.Scope) async throws {
        let database = alice.container.database(with: scope)
        let me = try await creator(of: "mine", in: database)
        if scope == .public {
            try await relay.device(of: "bob").publicDatabase.save(CKRecord(recordType: "Post"))
        }
        let reference = CKRecord.Reference(recordID: me, action: .none)
        let predicates = [
            NSPredicate(format: "creatorUserRecordID == %@", me),
            NSPredicate(format: "creatorUserRecordID == %@", reference),
            NSPredicate(format: "lastModifiedUserRecordID IN %@", [me]),
        ]
        // A new container object does not know its user yet.
        for predicate in predicates {
            let fresh = relay.device(of: "alice", named: "tablet").container.database(with: scope)
            let found = try await fresh.records(matching: CKQuery(recordType: "Post", predicate: predicate))
            #expect(found.matchResults.map(\.0.recordName) == ["mine"])
        }
    }

    @Test func creatorIDsWorkInFields() async throws {
        let reference = CKRecord.Reference(recordID: try await creator(of: "post", in: database), action: .none)
        let comment = CKRecord(recordType: "Comment", recordID: CKRecord.ID(recordName: "comment"))
        comment["author"] = reference
        comment["readers"] = [reference]
        try await database.save(comment)
        let seen = try await relay.device(of: "bob").publicDatabase.record(for: comment.recordID)
        #expect((seen["author"] as? CKRecord.Reference)?.recordID.recordName == name)
        #expect((seen["readers"] as? [CKRecord.Reference])?.map(\.recordID.recordName) == [name])
        let query = CKQuery(recordType: "Comment", predicate: NSPredicate(format: "author == %@", reference))
        #expect(try await database.records(matching: query).matchResults.count == 1)
    }

    @Test func creatorIDsWorkInFetches() async throws {
        let me = try await creator(of: "post", in: database)
        let user = try await database.record(for: me)
        #expect(user.recordType == CKRecord.SystemType.userRecord && user.recordID.recordName == name)
        let both = try await database.records(for: [me, user.recordID])
        #expect(both.count == 2)
        for result in both.values { #expect(try result.get().recordID == user.recordID) }
    }

    @Test func creatorIDsWorkInSubscriptions() async throws {
        let me = try await creator(of: "post", in: database)
        let predicate = NSPredicate(format: "creatorUserRecordID == %@", me)
        try await database.save(CKQuerySubscription(recordType: "Post", predicate: predicate, subscriptionID: "mine"))
        let kept = try #require(try await database.subscription(for: "mine").subscription.query?.json)
        #expect(String(decoding: kept, as: UTF8.self).contains(name))
    }
}
