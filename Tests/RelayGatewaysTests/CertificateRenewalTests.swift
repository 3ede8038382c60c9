import Crypto
import Foundation
import RelayCore
import RelayGateways
import Synchronization
import TestSupport
import Testing

/// Obtaining and renewing certificates from a scripted ACME server, with a clock that only sleeping moves.
@Suite(.timeLimit(.minutes(5)))
struct CertificateRenewalTests {
    private let scratch = ScratchFolder()

    private final class World: Sendable {
        struct State {
            var now = Date(timeIntervalSince1970: 1_800_000_000)
            var sleeps: [Duration] = []
            var events: [CertificateRenewer.Event] = []
        }

        let state = Mutex(State())
        /// The number of obtained certificates or failures after which the renewer is cancelled.
        let lastEvent: Int

        init(until lastEvent: Int) { self.lastEvent = lastEvent }

        var now: Date { state.withLock { $0.now } }
        var events: [CertificateRenewer.Event] { state.withLock { $0.events } }
        var sleeps: [Duration] { state.withLock { $0.sleeps } }
        var faults: [ACMEFault] {
            events.compactMap { if case .failed(let fault, _) = $0 { fault } else { nil } }
        }

        @Sendable func sleep(_ time: Duration) async throws {
            let isOver = state.withLock { state in
                state.now += time / .seconds(1)
                state.sleeps.append(time)
                return state.events.count { event in
                    switch event {
                    case .obtained, .failed: true
                    case .available, .requested: false
                    }
                } >= lastEvent
            }
            if isOver {
                withUnsafeCurrentTask { $0?.cancel() }
                throw CancellationError()
            }
        }
    }

    private func folder(_ domain: String = "sync.example.org") -> CertificateFolder {
        CertificateFolder(data: scratch.path, domain: domain)
    }

    /// Runs the renewer until it has obtained, or failed to obtain, `count` certificates.
    private func run(
        _ server: ScriptedACMEServer,
        in world: World,
        directory: String = ScriptedACMEServer.address
    ) async {
        let renewer = CertificateRenewer(
            folder(),
            email: "ops@example.org",
            directory: directory,
            environment: .init(
                client: ACMEClient(
                    sleep: { time in world.state.withLock { $0.now += time / .seconds(1) } },
                    send: { try server.respond($0) }
                ),
                publish: { server.publish($0) },
                unpublish: { server.unpublish() },
                now: { world.now },
                sleep: world.sleep,
                random: RandomSource { [UInt8](repeating: 0x80, count: $0) }
            ),
            onEvent: { event in world.state.withLock { $0.events.append(event) } }
        )
        await withTaskGroup { $0.addTask { await renewer.run() } }
    }

    @Test("a certificate is obtained, saved with its key for the owner alone, and renewed after two thirds of its life")
    func renewal() async throws {
        let world = World(until: 2)
        let server = ScriptedACMEServer(now: { world.now })
        let start = world.now
        await run(server, in: world)
        #expect(
            server.steps.prefix(12) == [
                .directory, .nonce, .account, .order, .authorization, .challenge, .authorization, .authorization,
                .orderStatus, .finalize, .orderStatus, .certificate,
            ]
        )
        let periods = world.events.compactMap { if case .obtained(let period) = $0 { period } else { nil } }
        try #require(periods.count == 2)
        let share = periods[1].start.timeIntervalSince(start) / (90 * 86_400)
        #expect((0.63...0.67).contains(share), "\(share)")
        // The wall clock is read every hour.
        #expect(world.sleeps.allSatisfy { $0 <= .seconds(3_600) })
        #expect(server.accounts == 1)

        let text = try String(contentsOfFile: folder().certificatePath, encoding: .utf8)
        #expect(text.contains("BEGIN CERTIFICATE") && text.contains("BEGIN PRIVATE KEY"))
        #expect(folder().period == periods[1])
        for name in try FileManager.default.contentsOfDirectory(atPath: scratch.path + "/acme") {
            let path = scratch.path + "/acme/" + name
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber
            #expect(mode?.intValue == 0o600, "\(name)")
            #expect(!name.hasSuffix(".new"))
        }
    }

    @Test("a response with badNonce repeats the request with the new nonce")
    func badNonce() async {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        for step in [ScriptedACMEServer.Step.account, .finalize, .certificate] {
            server.willRefuse(step, 400, "badNonce", "try again")
        }
        await run(server, in: world)
        #expect(server.certificates == 1 && world.faults.isEmpty)
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
        var step: ScriptedACMEServer.Step
        var status: Int
        var type: String
        var code: ACMEFault.Code
        /// A part of the advice.
        var remedy: String

        var testDescription: String { "\(step) \(type)" }
    }

    @Test(
        "a refusal says what happened, where, and what to do",
        arguments: [
            Refusal(step: .directory, status: 404, type: "x", code: .unexpectedAnswer, remedy: "tries again"),
            Refusal(step: .nonce, status: 500, type: "serverInternal", code: .serverError, remedy: "tries again"),
            Refusal(step: .account, status: 400, type: "invalidContact", code: .accountRejected, remedy: "acme-email"),
            Refusal(
                step: .account,
                status: 403,
                type: "externalAccountRequired",
                code: .accountRejected,
                remedy: "acme-directory"
            ),
            Refusal(step: .order, status: 400, type: "rejectedIdentifier", code: .nameRejected, remedy: "public name"),
            Refusal(step: .order, status: 429, type: "rateLimited", code: .rateLimited, remedy: "staging"),
            Refusal(step: .order, status: 403, type: "caa", code: .forbiddenByCAA, remedy: "CAA record"),
            Refusal(step: .finalize, status: 503, type: "serverInternal", code: .serverError, remedy: "tries again"),
        ]
    )
    func refusals(refusal: Refusal) async throws {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        server.willRefuse(refusal.step, refusal.status, refusal.type, "the \\nreason.")
        await run(server, in: world)
        let fault = try #require(world.faults.first)
        #expect(fault.code == refusal.code && fault.remedy.contains(refusal.remedy), "\(fault)")
        #expect(fault.found.contains(": the  reason."), "\(fault)")
        #expect(folder().status?.fault == fault.found && folder().period == nil)
    }

    @Test(
        "a failed validation says whether the DNS, the port or the server is wrong",
        arguments: [
            ("dns", ACMEFault.Code.nameNotResolved, "A or AAAA record"),
            ("connection", .portNotReached, "Open port 80"), ("unauthorized", .otherServer, "to this machine"),
            ("incorrectResponse", .otherServer, "to this machine"), ("caa", .forbiddenByCAA, "CAA record"),
        ]
    )
    func failedValidations(type: String, code: ACMEFault.Code, remedy: String) async throws {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        server.willAnswer(.authorization, 200, ScriptedACMEServer.invalidAuthorization(type, "10.0.0.1: refused"))
        await run(server, in: world)
        let fault = try #require(world.faults.first)
        #expect(fault.code == code && fault.found.contains("10.0.0.1: refused"), "\(fault)")
        #expect(fault.remedy.contains(remedy) && fault.found.contains("sync.example.org"), "\(fault)")
    }

    @Test(
        "an answer that is not ACME is refused",
        arguments: [
            (ScriptedACMEServer.Step.directory, "<html>"),
            (.directory, #"{"newNonce":"http://acme.test/nonce","newAccount":"a","newOrder":"b"}"#),
            (.authorization, #"{"status":"pending","challenges":[]}"#),
            (.authorization, "[]"), (.finalize, #"{"status":"valid","authorizations":[],"finalize":""}"#),
        ]
    )
    func invalidAnswers(step: ScriptedACMEServer.Step, body: String) async throws {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        server.willAnswer(step, 200, body)
        await run(server, in: world)
        #expect(world.faults.first?.code == .unexpectedAnswer, "\(world.events)")
    }

    @Test("an unreachable server is named with its host")
    func unreachable() async throws {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        await run(server, in: world, directory: "https://nowhere.test/dir")
        let fault = try #require(world.faults.first)
        #expect(fault.code == .unreachable && fault.found.contains("nowhere.test"), "\(fault)")
        #expect(fault.remedy.contains("acme-directory"))
    }

    @Test("an order that stays in progress ends after five minutes")
    func tooSlow() async {
        let world = World(until: 1)
        let server = ScriptedACMEServer(now: { world.now })
        for _ in 0..<400 {
            server.willAnswer(
                .orderStatus,
                200,
                #"{"status":"processing","authorizations":[],"finalize":"https://acme.test/finalize"}"#
            )
        }
        await run(server, in: world)
        #expect(world.faults.first?.code == .tooSlow, "\(world.events)")
    }

    @Test("a certificate for another key is not saved")
    func otherKey() async {
        let world = World(until: 1)
        await run(ScriptedACMEServer(usesOtherKey: true, now: { world.now }), in: world)
        #expect(world.faults.first?.code == .unusableCertificate)
        #expect(folder().period == nil)
    }

    @Test("the relay waits as long as a rate limit asks, also after a restart")
    func rateLimit() async throws {
        let first = World(until: 1)
        let limited = ScriptedACMEServer(now: { first.now })
        limited.willRefuse(.order, 429, "rateLimited", "too many", retryAfter: .seconds(7_200))
        await run(limited, in: first)
        guard case .failed(_, let wait)? = first.events.last else {
            Issue.record("\(first.events)")
            return
        }
        #expect(wait == .seconds(7_200))

        let second = World(until: 1)
        let server = ScriptedACMEServer(now: { second.now })
        await run(server, in: second)
        #expect(second.sleeps.prefix(2) == [.seconds(3_600), .seconds(3_600)], "\(second.sleeps)")
        #expect(server.certificates == 1)
    }

    @Test("a certificate of another directory is replaced at once")
    func otherDirectory() async throws {
        let world = World(until: 1)
        await run(ScriptedACMEServer(now: { world.now }), in: world)
        try folder().save(CertificateFolder.Status(directory: "https://staging.test/dir"))
        let next = World(until: 1)
        let server = ScriptedACMEServer(now: { next.now })
        await run(server, in: next)
        #expect(server.certificates == 1)
        #expect(next.events.prefix(2) == [.available, .requested])
    }

    @Test("a present certificate is used without asking the server")
    func presentCertificate() async {
        let world = World(until: 1)
        await run(ScriptedACMEServer(now: { world.now }), in: world)
        let next = World(until: 0)
        let server = ScriptedACMEServer(now: { next.now })
        await run(server, in: next)
        #expect(server.steps.isEmpty && next.events == [.available])
    }

    @Test("the wait between attempts doubles to half a day")
    func backOff() {
        var schedule = RenewalSchedule()
        var random = SystemRandomNumberGenerator()
        let fault = ACMEFault.tooSlow("a.example")
        let waits = (0..<10).map { _ in schedule.failed(fault, using: &random) / .seconds(1) }
        for (wait, middle) in zip(waits, [300.0, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 43_200, 43_200]) {
            #expect((middle * 0.8...middle * 1.2).contains(wait))
        }
        schedule.succeeded()
        #expect(schedule.failed(.unreachable("a", "b"), using: &random) <= .seconds(36))
    }

    @Test(
        "Retry-After is seconds or a date",
        arguments: [
            ("120", 120), ("Fri, 15 Jan 2027 08:02:00 GMT", 120), ("Fri, 15 Jan 2027 07:00:00 GMT", 0), ("soon", nil),
            ("-5", 0),
        ] as [(String, Int?)]
    )
    func retryAfter(field: String, seconds: Int?) {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        #expect(ACMEClient.wait(field, now: now) == seconds.map { .seconds($0) })
    }
}
