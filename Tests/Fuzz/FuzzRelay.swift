import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Wire

/// An in-memory relay that holds some records and receives the fuzzed requests.
final class FuzzRelay: Sendable {
    static let container = "iCloud.org.example.fuzz"
    private let relay: Relay
    private let accounts: any AccountDirectory

    /// If `pushes` is true, devices can register for pushes.
    ///
    /// No push is ever sent.
    init(pushes: Bool = false) async throws {
        let directory = try TestStore.current.makeHome().accounts()
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        settings.requestRate = nil
        settings.publicRate = nil
        settings.failedCredentialRate = nil
        let state = Mutex(UInt64(1))
        accounts = directory
        relay = Relay(
            authenticator: try Authenticator(directory: directory, settings: settings, time: .system, random: .system),
            stores: TestStore.current.makeHome().stores(
                TestStoreOptions(draw: {
                    state.withLock {
                        $0 &+= 0x9E37_79B9_7F4A_7C15
                        return $0
                    }
                })
            ),
            hub: pushes ? NoticeHub(relayName: "fuzz", noticeID: { "n" }) : nil,
            push: pushes ? PushDependencies(gateway: NoGateway(), register: directory) : nil,
            time: .system,
            random: .system
        )
        for body in [
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        ] {
            _ = await ask("private/zones/modify", Array(body.utf8))
        }
        let fields =
            #"{"title":{"value":"a b"},"n":{"value":3},"tags":{"value":["a","b"]},"#
            + #""place":{"value":{"latitude":1,"longitude":2}},"when":{"value":5,"type":"TIMESTAMP"}}"#
        for (database, zone) in [("private", "Notes"), ("public", "_defaultZone")] {
            let operations = (0..<5).map {
                #"{"operationType":"forceUpdate","record":{"recordName":"r\#($0)","recordType":"Note","fields":\#(fields)}}"#
            }
            let body = #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(operations.joined(separator: ","))]}"#
            _ = await ask("\(database)/records/modify", Array(body.utf8))
        }
    }

    /// Sends a request as the user alice.
    func ask(_ operation: String, _ body: [UInt8]) async -> APIResponse {
        await send(
            APIRequest(
                method: .post,
                path: "/database/1/\(Self.container)/development/\(operation)",
                query: "ckAPIToken=x&ckWebAuthToken=dev-alice",
                body: body
            )
        )
    }

    func send(_ request: APIRequest) async -> APIResponse { await relay.respond(to: request) }

    /// The push targets that devices have registered.
    func registered() -> [PushTarget] { ((try? accounts.pushDevices()) ?? []).map(\.target) }

    /// Checks an answer: it must be JSON, must not be an internal error, and every error must have a reason.
    static func finding(_ answer: APIResponse) -> Finding {
        let status = answer.status.code
        guard status != 500 else {
            return Finding("500", objection: "500: \(String(decoding: answer.body, as: UTF8.self))")
        }
        guard !answer.body.isEmpty, answer.headers[.contentType]?.hasPrefix("application/json") ?? false else {
            return Finding("\(status) bare")
        }
        guard let root = try? JSONDocument(parsing: answer.body).root else {
            return Finding(
                "\(status)",
                objection: "the answer is not JSON: \(String(decoding: answer.body, as: UTF8.self))"
            )
        }
        guard (try? JSONSerialization.jsonObject(with: Data(answer.body))) != nil else {
            return Finding("\(status)", objection: "Foundation cannot read the answer")
        }
        var outcome = "\(status)"
        if let code = try? root["serverErrorCode"]?.string() {
            let reason = (try? root["reason"]?.string()) ?? ""
            if reason.isEmpty { return Finding(outcome, objection: "\(code) without a reason") }
            // The reason tells apart the places where the relay found the problem. Numbers in it are ignored.
            outcome += " \(code) \(reason.filter { !$0.isNumber }.prefix(60))"
        }
        for list: StaticString in ["records", "zones", "subscriptions", "results", "users", "tokens"] {
            guard let elements = try? root[list]?.elements() else { continue }
            for element in elements.prefix(3) {
                let code = (try? element["serverErrorCode"]?.string()) ?? "ok"
                if code == "INTERNAL_ERROR" {
                    return Finding(outcome, objection: "item failed: \(String(decoding: answer.body, as: UTF8.self))")
                }
                outcome += " \(code)"
            }
        }
        return Finding(outcome)
    }
}

/// Accepts every device and sends nothing.
private struct NoGateway: PushGateway {
    func objection(to target: PushTarget) -> String? { nil }
    func send(_ push: Push, to target: PushTarget) async -> PushOutcome { .taken }
    var webPushKey: [UInt8]? { nil }
}
