import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

/// What an automatic engine tells its delegate and the log when it cannot sync.
@Suite(.timeLimit(.minutes(15))) struct FailureReportTests {
    /// A delegate that stores the failures.
    private final class Delegate: CKSyncEngineDelegate {
        let failures = Mutex<[CKError]>([])
        let signal = ChangeSignal()

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {}

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }

        func handleFailure(_ error: CKError, syncEngine: CKSyncEngine) async {
            failures.withLock { $0.append(error) }
            signal.send()
        }
    }

    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    private func engine(
        _ database: CKDatabase,
        _ delegate: Delegate,
        _ lines: Lines,
        _ conditions: SyncConditions = SyncConditions()
    ) -> CKSyncEngine {
        var conditions = conditions
        conditions.log = { line in lines.all.withLock { $0.append(line) } }
        let configuration = CKSyncEngine.Configuration(
            database: database,
            stateSerialization: nil,
            delegate: delegate
        )
        return CKSyncEngine(configuration, conditions: conditions)
    }

    private func first(_ delegate: Delegate) async throws -> CKError {
        try await within(.seconds(60), "a failure") {
            try await delegate.signal.until { !delegate.failures.withLock(\.isEmpty) }
        }
        let failure = delegate.failures.withLock { $0.first }
        return try #require(failure)
    }

    @Test func enginesWithoutARelayReportItAndWriteOneLine() async throws {
        let container = CKContainer(identifier: "iCloud.nowhere.\(UUID().uuidString)")
        let (own, others, lines) = (Delegate(), Delegate(), Lines())
        let engines = [
            engine(container.privateCloudDatabase, own, lines), engine(container.sharedCloudDatabase, others, lines),
        ]
        for delegate in [own, others] {
            let error = try await first(delegate)
            #expect(error.code == .badContainer && error.localizedDescription.contains("ZONECAST_URL"))
            #expect(error.recoverySuggestion?.contains("CKContainer.configure") == true)
        }
        let written = lines.all.withLock { $0 }
        #expect(written.count == 1 && written[0].contains(container.session.container), "\(written)")
        #expect(written[0].contains("ZONECAST_URL"), "\(written)")
        for engine in engines { await engine.stop() }
    }

    @Test(arguments: [CKError.Code.networkUnavailable, .notAuthenticated])
    func aFailureIsReportedOnceUntilSyncSucceeds(_ code: CKError.Code) async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice", named: "phone")
        func fail() {
            if code == .notAuthenticated {
                // More than all attempts of this test; how many there are depends on which task runs first.
                for _ in 0..<100 { device.network.fail(.signedOut) }
            } else {
                device.network.cut()
            }
        }
        let (delegate, lines) = (Delegate(), Lines())
        fail()
        let engine = engine(device.privateDatabase, delegate, lines)
        let error = try await first(delegate)
        #expect(error.code == code && error.recoverySuggestion?.isEmpty == false)
        // The next attempts fail in the same way.
        await #expect(throws: CKError.self) { try await engine.fetchChanges() }
        device.network.heal()
        await engine.stop()
        #expect(delegate.failures.withLock(\.count) == 1 && lines.all.withLock(\.count) == 1)
        #expect(lines.all.withLock { $0.first?.contains(error.localizedDescription) } == true)
    }

    /// The relay closes the notice connection of an account that has ended; the engine then asks for the reason.
    @Test func aSignInThatEndsIsReportedWithoutWaitingForAPoll() async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice", named: "phone")
        try await device.signIn()
        let (delegate, lines) = (Delegate(), Lines())
        let engine = engine(device.privateDatabase, delegate, lines)
        try await engine.fetchChanges()
        try await device.expireSignIn()
        let error = try await first(delegate)
        #expect(error.code == .notAuthenticated)
        #expect(lines.all.withLock(\.count) == 1)
        await engine.stop()
    }
}

@Suite struct ErrorTextTests {
    /// Every error says what happened and what to do, in whole sentences.
    @Test(arguments: CKError.Code.allCases)
    func everyErrorHasATextAndASuggestion(_ code: CKError.Code) throws {
        let error = CKError(code) as NSError
        let suggestion = try #require(error.userInfo[NSLocalizedRecoverySuggestionErrorKey] as? String)
        #expect(CKError(code).recoverySuggestion == suggestion && error.localizedRecoverySuggestion == suggestion)
        for text in [error.localizedDescription, suggestion] {
            #expect(text.hasSuffix(".") && text.first?.isUppercase == true, "\(text)")
            #expect(!text.contains("error \(code.rawValue)"), "\(text)")
            for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
                #expect(text.count { String($0) == open } == text.count { String($0) == close }, "\(text)")
            }
            #expect(text.count { $0 == "\"" }.isMultiple(of: 2) && !text.contains("UserInfo"), "\(text)")
        }
    }

    @Test func anErrorOfAnotherDomainKeepsItsText() {
        let cause = NSError(domain: "Other", code: 7, userInfo: [NSLocalizedDescriptionKey: "The disk is full."])
        let error = CKError(_nsError: cause)
        #expect(error.localizedDescription.hasSuffix("The disk is full."))
        #expect(error.recoverySuggestion?.isEmpty == false)
    }

    @Test func aDescriptionThatNamesTheRemedyIsNotRepeated() {
        #expect(CKError(.zoneNotFound).advice == CKError(.zoneNotFound).localizedDescription)
        #expect(CKError(.zoneNotFound, "No such zone.").advice == "No such zone. Save the zone first.")
    }
}
