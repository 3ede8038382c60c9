import Foundation
import Records
import SyncCore
import Synchronization
import Testing
import Wire
import ZoneKit

/// Single requests and answers at the level of the wire.
@Suite struct RelayCallTests {
    let id = CKRecord.ID(recordName: "n1", zoneID: CKRecordZone.ID(zoneName: "Notes"))
    static let found = """
        {"records":[{"recordName":"n1","recordType":"Note","recordChangeTag":"t1","fields":{},"pluginFields":{},
        "created":{"timestamp":1000,"userRecordName":"_alice","deviceID":"1"},
        "modified":{"timestamp":2000,"userRecordName":"_bob","deviceID":"2"},"deleted":false,
        "zoneID":{"zoneName":"Notes","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"}}]}
        """

    @Test func requestsCarryPathTokensAndDevice() async throws {
        let relay = ScriptedRelay(.answer(200, Self.found))
        let record = try await relay.container(webAuthToken: "x+/=").privateCloudDatabase.record(for: id)
        let request = try #require(relay.requests.first)
        #expect(request.method == .post)
        #expect(request.path == "/database/1/iCloud.test/development/private/records/lookup")
        #expect(request.query == "ckAPIToken=a%2Bb%2Fc%3D&ckWebAuthToken=x%2B%2F%3D")
        #expect(request.headers.contains { $0.name == "X-Zonecast-Device-ID" && $0.value == "phone" })
        #expect(relay.bodies == [#"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"n1"}]}"#])
        #expect(record.recordID == id)
        #expect(record.creationDate == Date(timeIntervalSince1970: 1))
        #expect(record.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)
        #expect(record.lastModifiedUserRecordID?.recordName == "_bob")
    }

    /// Both forms of `Retry-After` in a proxy's answer, and invalid values.
    @Test(
        arguments: [
            ("3", 3), ("0.25", 0.25), ("1e30", 31_536_000), ("inf", 31_536_000), ("Mon, 23 Nov 2026 04:01:30 GMT", 90),
            ("Mon, 23 Nov 2026 03:00:00 GMT", 0), ("nan", nil), ("-1", nil), ("soon", nil), ("", nil),
        ] as [(String, Double?)]
    )
    func retryAfterOfAProxyIsUsed(_ text: String, _ seconds: Double?) async throws {
        let headers = ["Retry-After": text, "Date": "Mon, 23 Nov 2026 04:00:00 GMT"]
        let relay = ScriptedRelay(.answer(503, "<html>", headers: headers))
        do {
            _ = try await relay.container().privateCloudDatabase.record(for: id)
            Issue.record("A proxy's page was accepted as a record.")
        } catch let error as CKError {
            #expect(error.code == .serviceUnavailable)
            #expect(error.retryAfterSeconds == seconds)
            #expect(error.syncFailure.retryAfter == seconds.map { .milliseconds(Int64($0 * 1000)) })
        }
    }

    /// An invalid wait time in an error must not crash the program.
    @Test func anInvalidRetryAfterIsIgnored() {
        for seconds in [Double.nan, -Double.infinity, -1] {
            let error = CKError(.serviceUnavailable, userInfo: [CKErrorRetryAfterKey: NSNumber(value: seconds)])
            #expect(error.syncFailure.retryAfter == nil)
        }
        let error = CKError(.serviceUnavailable, userInfo: [CKErrorRetryAfterKey: NSNumber(value: Double.infinity)])
        #expect(error.syncFailure.retryAfter == .seconds(31_536_000))
    }

    @Test func aRenewedTokenIsUsedFromThenOn() async throws {
        let kept = Mutex<[String]>([])
        let relay = ScriptedRelay(
            .answer(200, Self.found, headers: ["x-apple-cloudkit-web-auth-token": "second"]),
            .answer(200, Self.found, headers: ["X-Apple-CloudKit-Web-Auth-Token": "third"])
        )
        let database = relay.container(apiToken: nil, webAuthToken: "first") { token in
            kept.withLock { $0.append(token) }
        }.privateCloudDatabase
        _ = try await database.record(for: id)
        _ = try await database.record(for: id)
        #expect(relay.requests.map(\.query) == ["ckWebAuthToken=first", "ckWebAuthToken=second"])
        #expect(kept.withLock { $0 } == ["second", "third"])
    }

    static let transportErrors: [(TransportError, read: CKError.Code, write: CKError.Code)] = [
        (.offline, .networkUnavailable, .networkUnavailable),
        (.unreachable("x"), .networkFailure, .networkFailure),
        (.answerLost("x"), .networkFailure, .serverResponseLost),
        (.cancelled, .operationCancelled, .operationCancelled),
    ]

    @Test func aLostAnswerHasAnotherErrorForWrites() async {
        for (error, read, write) in Self.transportErrors {
            let relay = ScriptedRelay(.failure(error), .failure(error))
            let database = relay.container().privateCloudDatabase
            await expect(read) { _ = try await database.record(for: id) }
            await expect(write) { _ = try await database.save(CKRecord(recordType: "Note", recordID: id)) }
        }
    }

    @Test func requestErrorsContainTheRelaysReason() async {
        let relay = ScriptedRelay(
            .answer(
                429,
                #"{"uuid":"u-1","serverErrorCode":"THROTTLED","reason":"Too many requests.","retryAfter":7.5}"#
            ),
            .answer(503, #"{"uuid":"u-2","serverErrorCode":"TRY_AGAIN_LATER","reason":"Restarting.","retryAfter":"2"}"#)
        )
        let database = relay.container().privateCloudDatabase
        for (code, seconds, reason) in [
            (CKError.Code.requestRateLimited, 7.5, "Too many requests."), (.serviceUnavailable, 2, "Restarting."),
        ] {
            do {
                _ = try await database.record(for: id)
                Issue.record("nothing was thrown")
            } catch {
                let error = error as? CKError
                #expect(error?.code == code)
                #expect(error?.retryAfterSeconds == seconds)
                #expect(error?.localizedDescription == reason)
            }
        }
    }

    @Test func aSignInErrorContainsTheSignInURL() async {
        let relay = ScriptedRelay(
            .answer(
                421,
                """
                {"uuid":"u-3","serverErrorCode":"AUTHENTICATION_REQUIRED","reason":"request needs authorization",
                "redirectURL":"https://relay.example/signin?container=iCloud.test"}
                """
            )
        )
        do {
            _ = try await relay.container(webAuthToken: nil).privateCloudDatabase.allRecordZones()
            Issue.record("nothing was thrown")
        } catch {
            let error = error as? CKError
            #expect(error?.code == .notAuthenticated)
            #expect(error?.requestUUID == "u-3")
            #expect(error?.signInURL?.absoluteString == "https://relay.example/signin?container=iCloud.test")
        }
        #expect(relay.requests.map(\.method) == [.get])
        #expect(relay.requests.map(\.query) == ["ckAPIToken=a%2Bb%2Fc%3D"])
    }

    static let foreignAnswers: [(Int, String, CKError.Code)] = [
        (502, "<html>Bad Gateway</html>", .serviceUnavailable),
        (503, "", .serviceUnavailable),
        (401, "no", .accountTemporarilyUnavailable),
        (413, "", .limitExceeded),
        (429, "{}", .requestRateLimited),
        (404, "{}", .serverRejectedRequest),
        (200, "<html>Welcome to the hotel</html>", .internalError),
        (200, #"{"records":[{"recordName":5}]}"#, .internalError),
        (200, #"{"records":{}}"#, .internalError),
    ]

    @Test func answersOfOtherServersAreErrors() async {
        for (status, body, code) in Self.foreignAnswers {
            let relay = ScriptedRelay(.answer(status, body))
            await expect(code) { _ = try await relay.container().privateCloudDatabase.record(for: id) }
        }
    }

    @Test func cancellingTheTaskEndsTheRequest() async {
        let relay = ScriptedRelay(.silence)
        let database = relay.container().privateCloudDatabase
        let task = Task { try await database.record(for: id) }
        while relay.requests.isEmpty { await Task.yield() }
        task.cancel()
        await expect(.operationCancelled) { _ = try await task.value }
    }

    @Test func withoutARelayTheErrorNamesTheConfiguration() async {
        let container = CKContainer(identifier: "iCloud.nowhere.\(UUID().uuidString)")
        do {
            _ = try await container.privateCloudDatabase.record(for: id)
            Issue.record("nothing was thrown")
        } catch {
            #expect((error as? CKError)?.code == .badContainer)
            #expect(error.localizedDescription.contains("ZONECAST_URL"))
        }
    }

    @Test func environmentVariablesDescribeAnEndpoint() throws {
        let endpoint = try #require(
            RelayEndpoint(variables: [
                "ZONECAST_URL": "http://127.0.0.1:8080", "ZONECAST_ENVIRONMENT": "production",
                "ZONECAST_API_TOKEN": "abc", "ZONECAST_WEB_TOKEN": "dev-alice", "ZONECAST_DEVICE_ID": "",
            ])
        )
        #expect(endpoint.url.absoluteString == "http://127.0.0.1:8080")
        #expect(endpoint.environment == .production)
        #expect(endpoint.apiToken == "abc")
        #expect(endpoint.webAuthToken == "dev-alice")
        #expect(endpoint.deviceID == nil)
        #expect(RelayEndpoint(variables: [:]) == nil)
        #expect(RelayEndpoint(variables: ["ZONECAST_URL": "not an address"]) == nil)
    }

    @Test func anItemOfAnyCodeGetsItsOwnError() async throws {
        for (wire, native, _) in ErrorTests.table {
            let entry = #"{"recordName":"n1","serverErrorCode":"\#(wire.rawValue)","reason":"R.","retryAfter":3}"#
            let relay = ScriptedRelay(.answer(200, #"{"records":[\#(entry)]}"#))
            let record = CKRecord(recordType: "Note", recordID: id)
            let results = try await relay.container().privateCloudDatabase.modifyRecords(saving: [record], deleting: [])
            expect(native) { _ = try results.saveResults[id]?.get() }
            guard case .failure(let error)? = results.saveResults[id] else { continue }
            #expect((error as? CKError)?.retryAfterSeconds == 3)
        }
    }
}

/// `CKError`, and the table that maps wire errors to it.
@Suite struct ErrorTests {
    @Test func codesHaveCloudKitsNumbers() {
        #expect(CKError.Code.allCases.map(\.rawValue) == Array(1...37))
        #expect(CKError.Code.serverRecordChanged.rawValue == 14)
        #expect(CKError.Code.changeTokenExpired.rawValue == 21)
        #expect(CKError.Code.serverResponseLost.rawValue == 34)
        #expect(CKErrorDomain == "CKErrorDomain")
    }

    @Test func errorsAreCaughtByCodeAndBridge() {
        let error: any Error = CKError(.zoneNotFound, userInfo: [CKErrorRetryAfterKey: NSNumber(value: 2.5)])
        do { throw error } catch CKError.zoneNotFound {} catch { Issue.record("not caught by its code") }
        #expect((error as? CKError)?.code == .zoneNotFound)
        #expect((error as? CKError)?.retryAfterSeconds == 2.5)
        let bridged = error as NSError
        #expect(bridged.domain == CKErrorDomain)
        #expect(bridged.code == CKError.Code.zoneNotFound.rawValue)
        #expect(bridged.userInfo[CKErrorRetryAfterKey] as? Double == 2.5)
        #expect(CKError(_nsError: bridged).code == .zoneNotFound)
        #expect(CKError(_nsError: NSError(domain: "other", code: 3)).code == .internalError)
    }

    @Test func everyCodeHasADescription() {
        for code in CKError.Code.allCases {
            #expect(CKError(code).localizedDescription.hasSuffix("."), "\(code)")
        }
    }

    @Test func partialErrorsAreFoundByItem() {
        let id = CKRecord.ID(recordName: "a")
        let error = CKError(.partialFailure, userInfo: [CKPartialErrorsByItemIDKey: [id: CKError(.unknownItem)]])
        #expect((error.partialErrorsByItemID?[id] as? CKError)?.code == .unknownItem)
    }

    static let table: [(ErrorCode, CKError.Code, whole: CKError.Code)] = [
        (.accessDenied, .permissionFailure, .permissionFailure),
        (.atomicError, .batchRequestFailed, .batchRequestFailed),
        (.authenticationFailed, .notAuthenticated, .notAuthenticated),
        (.authenticationRequired, .notAuthenticated, .notAuthenticated),
        (.badRequest, .invalidArguments, .invalidArguments),
        (.conflict, .serverRecordChanged, .serverRecordChanged),
        (.exists, .serverRecordChanged, .serverRecordChanged),
        (.internalError, .internalError, .internalError),
        (.notFound, .unknownItem, .badContainer),
        (.quotaExceeded, .quotaExceeded, .quotaExceeded),
        (.throttled, .requestRateLimited, .requestRateLimited),
        (.tryAgainLater, .serviceUnavailable, .serviceUnavailable),
        (.uniqueFieldError, .constraintViolation, .constraintViolation),
        (.validatingReferenceError, .referenceViolation, .referenceViolation),
        (.zoneNotFound, .zoneNotFound, .zoneNotFound),
    ]

    @Test func everyWireCodeMapsToANativeCode() {
        #expect(Set(Self.table.map(\.0)) == Set(ErrorCode.allCases))
        for (wire, item, whole) in Self.table {
            let failure = ClientResponse.Failure(error: RelayError(wire, "Reason."))
            #expect(CKError(failure, at: .item).code == item)
            #expect(CKError(failure, at: .request).code == whole)
            #expect(CKError(failure, at: .item).localizedDescription == "Reason.")
        }
    }

    static let fineTable: [FineErrorCode: CKError.Code] = [
        .changeTokenExpired: .changeTokenExpired, .limitExceeded: .limitExceeded, .userDeletedZone: .userDeletedZone,
        .zoneBusy: .zoneBusy, .alreadyShared: .alreadyShared, .tooManyParticipants: .tooManyParticipants,
        .participantMayNeedVerification: .participantMayNeedVerification,
        .participantAlreadyInvited: .participantAlreadyInvited, .serverResponseLost: .serverResponseLost,
    ]

    @Test(arguments: FineErrorCode.allCases) func fineCodesOverrideErrorCodes(_ fine: FineErrorCode) {
        let failure = ClientResponse.Failure(error: RelayError(.badRequest, "Reason.", fineCode: fine))
        #expect(CKError(failure, at: .item).code == Self.fineTable[fine])
    }
}
