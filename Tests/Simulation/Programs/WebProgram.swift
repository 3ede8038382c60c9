import Foundation
import Records
import Synchronization
import Wire
import ZoneKit
import ZoneTesting

/// A plain HTTP client without the SDK's sync code: it stores tokens and records, and sends what it is asked to.
final class WebProgram: Program, @unchecked Sendable {
    fileprivate struct Page {
        var token: String?
        var tags: [String: String] = [:]
        var fields: [String: [String: String]] = [:]
    }

    private struct Table {
        var token: String?
        var zones: [String: Page] = [:]
    }

    // Unchecked because of `device`: only the simulation's thread accesses it, between two steps.
    private(set) var device: TestDevice
    private let userName: String
    private let checker: Checker
    private let table = Mutex(Table())
    private let copy = Mutex<Table?>(nil)

    init(_ device: TestDevice, userName: String, checker: Checker) {
        self.device = device
        self.userName = userName
        self.checker = checker
    }

    func begin(on device: TestDevice) {
        self.device = device
        // The stored state survives a restart: only requests in progress are lost.
    }

    func saveState() {
        let now = table.withLock { $0 }
        copy.withLock { $0 = now }
    }

    func restoreState() {
        if let kept = copy.withLock({ $0 }) { table.withLock { $0 = kept } }
    }

    func retry() {}
    func unsent() -> [String] { [] }

    private func act(_ what: String, _ work: @escaping @Sendable (WebProgram) async throws -> Void) {
        Task(executorPreference: device.process) { [self] in
            do {
                try await work(self)
            } catch {
                checker.note("web \(what) failed")
            }
        }
    }

    private func call(_ operation: String, _ body: String, isWrite: Bool = false) async throws -> JSONValue {
        try await device.connection.send(RelayCall(.private, operation, Array(body.utf8), isWrite: isWrite)).root
    }

    // MARK: Writing

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        act("edit") { web in
            let tag = web.table.withLock { $0.zones["Z\(zone)"]?.tags[record] }
            let kind = tag == nil ? "create" : "update"
            let base = tag.map { #","recordChangeTag":"\#($0)""# } ?? ""
            let fields = #"{"\#(field)":{"value":"\#(value)"}}"#
            let item = #"{"recordName":"\#(record)","recordType":"Item"\#(base),"fields":\#(fields)}"#
            // With an operation ID, so that the request can be repeated.
            let id = "web-\(value.filter(\.isNumber))-\(record)"
            let body =
                #"{"operationID":"\#(id)","zoneID":{"zoneName":"Z\#(zone)"},"operations":[{"operationType":"\#(kind)","record":\#(item)}]}"#
            for _ in 0..<3 {
                do {
                    _ = try await web.call("records/modify", body, isWrite: true)
                    return
                } catch let failure as CallFailure where failure.error.code.isNetwork {
                    continue
                }
            }
        }
    }

    func delete(_ zone: Int, _ record: String) {
        act("delete") { web in
            let body =
                #"{"zoneID":{"zoneName":"Z\#(zone)"},"operations":[{"operationType":"forceDelete","record":{"recordName":"\#(record)"}}]}"#
            _ = try await web.call("records/modify", body, isWrite: true)
        }
    }

    // MARK: Reading

    /// Fetches the list of zones, then the changes of each.
    func poll() {
        act("poll") { web in
            try await web.fetchZones()
            for zone in web.table.withLock({ $0.zones.keys.sorted() }) { try await web.fetch(zone) }
        }
    }

    private func fetchZones() async throws {
        var hasMore = true
        while hasMore {
            let since = table.withLock { $0.token }
            let token = since.map { #""syncToken":"\#($0)""# } ?? ""
            let said: JSONValue
            do {
                said = try await call("changes/database", "{\(token)}")
            } catch let failure as CallFailure where failure.error.code == .changeTokenExpired {
                table.withLock { $0 = Table() }
                continue
            }
            for entry in try said["zones"]?.elements() ?? [] {
                let name = try entry.required("zoneID").required("zoneName").string()
                let isGone = try entry["deleted"]?.bool() ?? false
                table.withLock { table in
                    if isGone { table.zones[name] = nil } else { table.zones[name] = table.zones[name] ?? Page() }
                }
            }
            let next = try said.required("syncToken").string()
            table.withLock { $0.token = next }
            hasMore = try said["moreComing"]?.bool() ?? false
        }
    }

    private func fetch(_ zone: String) async throws {
        while let page = table.withLock({ $0.zones[zone] }) {
            let token = page.token.map { #","syncToken":"\#($0)""# } ?? ""
            let said = try await call(
                "changes/zone",
                #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"}\#(token),"resultsLimit":2}]}"#
            )
            guard let answer = try said["zones"]?.elements().first else { return }
            if let code = try answer["serverErrorCode"]?.string() {
                // Starts over if the token is no longer valid; the next poll notices a deleted zone.
                if code == "BAD_REQUEST" { table.withLock { $0.zones[zone] = Page() } }
                if code == "BAD_REQUEST", page.token != nil { continue }
                return
            }
            var next = page
            for record in try answer["records"]?.elements() ?? [] { try next.take(record) }
            next.token = try answer.required("syncToken").string()
            let taken = next
            table.withLock { $0.zones[zone] = taken }
            guard try answer["moreComing"]?.bool() == true else { return }
        }
    }

    func localRecords() -> [ZoneName: [String: [String: String]]]? {
        table.withLock { table in
            var all: [ZoneName: [String: [String: String]]] = [:]
            for (name, page) in table.zones { all[ZoneName(owner: userName, name: name)] = page.fields }
            return all
        }
    }

    func expected(from snapshot: StoreSnapshot) -> [ZoneName: [String: Version]] {
        snapshot.zones(of: userName, shared: false).reduce(into: [:]) { $0[$1] = snapshot[$1] }
    }
}

extension WebProgram.Page {
    fileprivate mutating func take(_ record: JSONValue) throws {
        let name = try record.required("recordName").string()
        if try record["deleted"]?.bool() == true {
            (tags[name], fields[name]) = (nil, nil)
        } else if try record["recordType"]?.string() != Share.recordType, let json = record["fields"] {
            tags[name] = try record.required("recordChangeTag").string()
            fields[name] = try Checker.texts(ofFields: json)
        }
    }
}

extension CKError.Code {
    fileprivate var isNetwork: Bool {
        [.networkFailure, .networkUnavailable, .serviceUnavailable, .requestRateLimited, .zoneBusy].contains(self)
    }
}
