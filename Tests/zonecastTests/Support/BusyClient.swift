import Foundation
import Synchronization

/// A client that uses all operations in two zones of its own until the relay is gone: batches, deletions, moves, shares
/// and assets.
///
/// Each request is atomic, and the client sends one at a time. It therefore knows the content of its zones except for
/// the one request without a response: exactly two states are possible.
final class BusyClient: Sendable {
    /// Values by zone and record name: the content for an asset, the record type for a share.
    typealias Contents = [String: [String: String]]

    private struct State {
        var known: Contents
        /// The content if the request without a response was applied.
        var pending: Contents?
        var random: UInt64
        var value = 0
        var hasZones = false
    }

    let number: Int
    private let state: Mutex<State>

    init(number: Int, seed: UInt64) {
        self.number = number
        let zones = ["c\(number)-A", "c\(number)-B"]
        state = Mutex(
            State(
                known: Dictionary(uniqueKeysWithValues: zones.map { ($0, [:]) }),
                random: seed &* 7_919 &+ UInt64(number)
            )
        )
    }

    var zones: [String] { state.withLock { $0.known.keys.sorted() } }

    /// Starts each client on its own thread; the group is left when all have noticed that the relay is gone.
    static func start(_ clients: [BusyClient], on relay: RelayProcess, _ done: @escaping @Sendable () -> Void)
        -> DispatchGroup
    {
        let finished = DispatchGroup()
        let port = relay.port
        for client in clients {
            finished.enter()
            Thread {
                client.run(port: port, done)
                finished.leave()
            }.start()
        }
        return finished
    }

    private func run(port: Int, _ done: () -> Void) {
        guard let connection = try? HTTPConnection(port: port) else { return }
        if !state.withLock({ $0.hasZones }) {
            guard (try? makeZones(on: connection)) != nil else { return }
        }
        while (try? act(on: connection)) != nil { done() }
    }

    private func makeZones(on connection: HTTPConnection) throws {
        let operations = zones.map { #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"# }
        let body = #"{"operations":[\#(operations.joined(separator: ","))]}"#
        guard try connection.send("POST", Path.to("zones/modify"), body: body).status == 200 else {
            throw HTTPConnection.ConnectionLost()
        }
        state.withLock { $0.hasZones = true }
    }

    private func draw(_ bound: Int) -> Int {
        state.withLock { state in
            state.random = state.random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state.random >> 33) % bound
        }
    }

    // MARK: Requests

    private func act(on connection: HTTPConnection) throws {
        let zone = zones[draw(2)]
        let other = zones.first { $0 != zone } ?? zone
        let here = state.withLock { $0.known[zone] ?? [:] }
        let names = here.keys.filter { $0 != "cloudkit.zoneshare" }.sorted()
        switch draw(10) {
        case 0 where !names.isEmpty: try delete(some(of: names), in: zone, connection)
        case 1 where !names.isEmpty: try move(some(of: names), from: zone, to: other, connection)
        case 2: try share(zone, isShared: here["cloudkit.zoneshare"] != nil, connection)
        case 3: try saveAsset(in: zone, connection)
        default: try save(in: zone, connection)
        }
    }

    private func some(of names: [String]) -> [String] {
        Array(Set((0...draw(5)).map { _ in names[draw(names.count)] }))
    }

    private func save(in zone: String, _ connection: HTTPConnection) throws {
        let value = state.withLock { state in
            state.value += 1
            return state.value
        }
        let names = Set((0...draw(20)).map { _ in "r\(draw(40))-\(number)" })
        let operations = names.map {
            #"{"operationType":"forceReplace","record":{"recordName":"\#($0)","recordType":"Note","#
                + #""fields":{"value":{"value":\#(value)}}}}"#
        }
        try modify(zone, operations, connection) { contents in
            for name in names { contents[zone, default: [:]][name] = "\(value)" }
        }
    }

    private func delete(_ names: [String], in zone: String, _ connection: HTTPConnection) throws {
        let operations = names.map { #"{"operationType":"forceDelete","record":{"recordName":"\#($0)"}}"# }
        try modify(zone, operations, connection) { contents in
            for name in names { contents[zone]?[name] = nil }
        }
    }

    private func share(_ zone: String, isShared: Bool, _ connection: HTTPConnection) throws {
        let name = "cloudkit.zoneshare"
        guard isShared else {
            let record = #"{"recordName":"\#(name)","recordType":"cloudkit.share","participants":[],"fields":{}}"#
            return try modify(zone, [#"{"operationType":"create","record":\#(record)}"#], connection) {
                $0[zone]?[name] = "cloudkit.share"
            }
        }
        try modify(zone, [#"{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}"#], connection) {
            $0[zone]?[name] = nil
        }
    }

    private func saveAsset(in zone: String, _ connection: HTTPConnection) throws {
        struct Tokens: Decodable {
            struct Token: Decodable { var url: String }
            var tokens: [Token]
        }
        struct Uploaded: Decodable {
            struct File: Decodable {
                var fileChecksum: String
                var receipt: String
                var size: Int
            }
            var singleFile: File
        }
        let name = "file-\(number)"
        let content = String(repeating: "\(draw(1 << 30)) ", count: 1 + draw(2_000))
        let tokenRequest = #"{"tokens":[{"recordType":"Photo","recordName":"\#(name)","fieldName":"file"}]}"#
        let tokens = try connection.send("POST", Path.to("assets/upload"), body: tokenRequest)
        guard tokens.status == 200, let url = try tokens.json(Tokens.self).tokens.first?.url,
            let address = URLComponents(string: url)
        else { throw HTTPConnection.ConnectionLost() }
        let target = address.percentEncodedPath + (address.percentEncodedQuery.map { "?\($0)" } ?? "")
        let sent = try connection.send("POST", target, body: content)
        guard sent.status == 200 else { throw HTTPConnection.ConnectionLost() }
        let file = try sent.json(Uploaded.self).singleFile
        let value = #"{"fileChecksum":"\#(file.fileChecksum)","size":\#(file.size),"receipt":"\#(file.receipt)"}"#
        let record = #"{"recordName":"\#(name)","recordType":"Photo","fields":{"file":{"value":\#(value)}}}"#
        try modify(zone, [#"{"operationType":"forceReplace","record":\#(record)}"#], connection) {
            $0[zone]?[name] = content
        }
    }

    private func move(_ names: [String], from zone: String, to other: String, _ connection: HTTPConnection) throws {
        let records = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"destinationZoneID":{"zoneName":"\#(other)"},"records":[\#(records)]}"#
        // The relay refuses a move onto existing names, so save instead.
        let isRefused = state.withLock { state in names.contains { state.known[other]?[$0] != nil } }
        if isRefused { return try save(in: zone, connection) }
        try request("records/move", body, connection) { contents in
            for name in names {
                let moved = contents[zone]?.removeValue(forKey: name)
                contents[other]?[name] = moved
            }
        }
    }

    private func modify(
        _ zone: String,
        _ operations: [String],
        _ connection: HTTPConnection,
        _ change: (inout Contents) -> Void
    ) throws {
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"atomic":true,"operations":[\#(operations.joined(separator: ","))]}"#
        try request("records/modify", body, connection, change)
    }

    /// Sends an atomic request and records its effect on the zones.
    private func request(
        _ operation: String,
        _ body: String,
        _ connection: HTTPConnection,
        _ change: (inout Contents) -> Void
    ) throws {
        var after = state.withLock { $0.known }
        change(&after)
        state.withLock { $0.pending = after }
        let answer = try connection.send("POST", Path.to(operation), body: body)
        let text = String(decoding: answer.body, as: UTF8.self)
        guard answer.status == 200, !text.contains("serverErrorCode") else { throw Refused(text: text) }
        state.withLock { state in
            state.known = after
            state.pending = nil
        }
    }

    /// A response that a healthy relay never sends to this client.
    struct Refused: Error { var text: String }

    // MARK: Checks

    private struct Feed: Decodable {
        struct Zone: Decodable {
            var records: [Record]?
            var syncToken: String?
            var moreComing: Bool?
        }
        struct Record: Decodable {
            struct Number: Decodable { var value: Int }
            struct Asset: Decodable {
                struct Value: Decodable { var downloadURL: String? }
                var value: Value
            }
            struct Fields: Decodable {
                var value: Number?
                var file: Asset?
            }
            var recordName: String
            var recordType: String?
            var deleted: Bool?
            var fields: Fields?
        }
        var zones: [Zone]
    }

    /// Reads the zones, continuing `contents` from `tokens`, and compares them with what it knows; returns differences.
    func check(
        on relay: RelayProcess,
        following contents: inout Contents,
        _ tokens: inout [String: String]
    ) throws -> [String] {
        let connection = try HTTPConnection(port: relay.port)
        guard state.withLock({ $0.hasZones }) else { return [] }
        var full = Contents()
        var faults: [String] = []
        for zone in zones {
            var none: String?
            full[zone] = [:]
            try read(zone, connection, &full[zone, default: [:]], &none, pageSize: 50)
            try read(zone, connection, &contents[zone, default: [:]], &tokens[zone], pageSize: 20)
            if contents[zone] != full[zone] { faults.append("\(zone): the feed and a full fetch differ") }
        }
        let (known, pending) = state.withLock { ($0.known, $0.pending) }
        if full != known, full != pending {
            let lost = zones.flatMap { zone in
                Set((known[zone] ?? [:]).keys).union((full[zone] ?? [:]).keys)
                    .filter { known[zone]?[$0] != full[zone]?[$0] }
                    .map {
                        "\(zone)/\($0): \(known[zone]?[$0]?.prefix(20) ?? "-") / \(full[zone]?[$0]?.prefix(20) ?? "-")"
                    }
            }
            faults.append("neither the state before nor after the last request: \(lost.sorted().prefix(5))")
        }
        state.withLock { [full] state in
            state.known = full
            state.pending = nil
        }
        return faults
    }

    private func read(
        _ zone: String,
        _ connection: HTTPConnection,
        _ records: inout [String: String],
        _ token: inout String?,
        pageSize: Int
    ) throws {
        var isMore = true
        while isMore {
            let since = token.map { #","syncToken":"\#($0)""# } ?? ""
            let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"resultsLimit":\#(pageSize)\#(since)}]}"#
            let answer = try connection.send("POST", Path.to("changes/zone"), body: body)
            guard let page = try answer.json(Feed.self).zones.first, let found = page.records,
                let next = page.syncToken
            else { throw Refused(text: String(decoding: answer.body, as: UTF8.self)) }
            for record in found {
                if record.deleted == true {
                    records[record.recordName] = nil
                } else if let asset = record.fields?.file {
                    records[record.recordName] = try content(of: asset, connection)
                } else {
                    let value = record.fields?.value.map { "\($0.value)" }
                    records[record.recordName] = value ?? record.recordType ?? ""
                }
            }
            token = next
            isMore = page.moreComing ?? false
        }
    }

    private func content(of asset: Feed.Record.Asset, _ connection: HTTPConnection) throws -> String {
        guard let address = asset.value.downloadURL.flatMap({ URLComponents(string: $0) }) else { return "no address" }
        let target = address.percentEncodedPath + (address.percentEncodedQuery.map { "?\($0)" } ?? "")
        let answer = try connection.send("GET", target)
        return answer.status == 200 ? String(decoding: answer.body, as: UTF8.self) : "asset gone (\(answer.status))"
    }
}
