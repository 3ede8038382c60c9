import Foundation
import Records
import Wire

/// One client of a benchmark, with its own connection; sends one request at a time.
struct BenchClient: Sendable {
    /// The target that all clients of a benchmark share.
    struct Place: Sendable {
        var address: ProbeAddress
        var credentials: DoctorCredentials
        var database: String
        /// The zone that the benchmark creates and deletes; the default zone in the public database.
        var zone: String
        /// The prefix of its record names.
        var mark: String
        /// A record type of the app; `nil` in the benchmark's own container.
        var type: String?

        var zoneID: String { #"{"zoneName":"\#(zone)"}"# }
    }

    let place: Place
    private let name: String
    private let wire: WireConnection
    private var probe: Probe { wire.probe }

    init(_ place: Place, name: String) async throws {
        self.place = place
        self.name = name
        wire = try await WireConnection(place.address, place.credentials, device: "bench-\(name)")
    }

    func close() { wire.close() }

    @discardableResult
    func post(_ operation: String, _ body: String) async throws -> JSONValue {
        try await wire.post(operation, in: place.database, body)
    }

    // MARK: Requests

    /// Saves new records in one request.
    func save(_ names: [String]) async throws {
        let operations = names.map { name in
            let own = #"{"title":{"value":"Buy milk"},"count":{"value":\#(name.utf8.count)}}"#
            return #"{"operationType":"create","record":{"recordName":"\#(name)","recordType":\#(type),"#
                + #""fields":\#(place.type == nil ? own : "{}")}}"#
        }
        try await modify(operations)
    }

    private var type: String { quoted(place.type ?? "Bench") }

    private func modify(_ operations: [String]) async throws {
        let list = operations.joined(separator: ",")
        try await post("records/modify", #"{"zoneID":\#(place.zoneID),"operations":[\#(list)]}"#)
    }

    func delete(_ names: [String]) async throws {
        let operations = names.map { #"{"operationType":"forceDelete","record":{"recordName":"\#($0)"}}"# }
        try await modify(operations)
    }

    /// Fetches one page of the zone's changes.
    ///
    /// Returns the number of records and the next token; the token is `nil` at the end.
    func fetch(since token: String?) async throws -> (count: Int, token: String?) {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let answer = try await post(
            "changes/zone",
            #"{"zones":[{"zoneID":\#(place.zoneID),"resultsLimit":200\#(since)}]}"#
        )
        guard let zone = answer.list("zones").first else { return (0, nil) }
        let hasMore = (try? zone["moreComing"]?.bool()) ?? false
        return (zone.list("records").count, hasMore ? zone.text("syncToken") : nil)
    }

    /// Queries 50 records.
    func query() async throws {
        let own = #"{"fieldName":"title","comparator":"BEGINS_WITH","fieldValue":{"value":"Buy"}}"#
        try await post(
            "records/query",
            #"{"zoneID":\#(place.zoneID),"resultsLimit":50,"query":{"recordType":\#(type),"#
                + #""filterBy":[\#(place.type == nil ? own : "")]}}"#
        )
    }

    // MARK: Notices

    /// Opens a notice socket as a separate device.
    func listen() async throws {
        let path = "/push/1/\(place.credentials.container)/\(place.credentials.environment)"
        let answer = try await probe.upgrade(path)
        guard answer.status == 101 else {
            throw WireConnection.Refusal(
                code: "\(answer.status)",
                reason: "No WebSocket for notices.",
                status: answer.status
            )
        }
        var hello = ["deviceID": "bench-\(name)", "ckWebAuthToken": place.credentials.webToken]
        hello["ckAPIToken"] = place.credentials.apiToken
        await probe.send(text: [UInt8](try JSONEncoder().encode(["hello": hello])))
        guard case .text = try await probe.frame("the answer to hello") else { throw ProbeFault.ended("it was ready") }
    }

    /// Waits for the next notice.
    func hear() async throws {
        guard case .text = try await probe.frame("a notice") else { throw ProbeFault.ended("a notice") }
    }
}
