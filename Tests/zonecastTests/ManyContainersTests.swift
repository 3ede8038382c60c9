import Foundation
import TestSupport
import Testing

@testable import zonecast

/// More containers than the descriptor limit allows stores to be open.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ManyContainersTests {
    private let folder = ScratchFolder()

    private struct Page: Decodable {
        struct Zone: Decodable {
            struct Record: Decodable { var recordName: String }
            var records: [Record]
            var syncToken: String
        }
        var zones: [Zone]
    }

    private func path(_ operation: String, of container: Int) -> String {
        "/database/1/iCloud.org.example.many\(container)/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }

    private func save(_ record: String, in container: Int, _ connection: HTTPConnection) throws -> Int {
        let record = #"{"recordName":"\#(record)","recordType":"Note","fields":{}}"#
        let operation = #"{"operationType":"create","record":\#(record)}"#
        let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(operation)]}"#
        return try connection.send("POST", path("records/modify", of: container), body: body).status
    }

    private func changes(since token: String?, in container: Int, _ connection: HTTPConnection) throws -> Page.Zone {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"}\#(since)}]}"#
        let answer = try connection.send("POST", path("changes/zone", of: container), body: body)
        return try #require(try answer.json(Page.self).zones.first)
    }

    @Test func allContainersAreServedUnderALowDescriptorLimitAndTheDoctorAdvisesToRaiseIt() throws {
        let count = 60
        let relay = try RelayProcess(folder: folder.path, openFiles: 256)
        let connection = try relay.connect()
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        var tokens: [String] = []
        for container in 0..<count {
            #expect(try connection.send("POST", path("zones/modify", of: container), body: zone).status == 200)
            #expect(try save("a", in: container, connection) == 200)
            tokens.append(try changes(since: nil, in: container, connection).syncToken)
        }
        for container in 0..<count {
            #expect(try save("b", in: container, connection) == 200)
            let page = try changes(since: tokens[container], in: container, connection)
            #expect(page.records.map(\.recordName) == ["b"])
        }
        #expect(relay.openDescriptors < 200)

        let run = try Command.run(["doctor", "--json", "--timeout", "120", "--data", folder.path])
        let finding = try #require(try run.json(DoctorTests.Diagnosis.self)["open files"])
        #expect(finding.grade == "advice")
        #expect(finding.found.contains("of 256") && finding.found.contains("at most 8 of "))
        #expect(finding.next?.contains("LimitNOFILE") == true)
        #expect(relay.stop().status == 0)
    }

    @Test func theDoctorGradesOpenFilesByConnectionsAndStores() {
        func grade(_ limit: Int, _ count: Int?, connections: Int, stores: Int) -> Finding.Grade {
            OpenFiles(limit: limit, count: count).finding(connections: connections, stores: stores).grade
        }
        #expect(grade(65_536, 3_000, connections: 10_000, stores: 12) == .good)
        #expect(grade(65_536, nil, connections: 10_000, stores: 900) == .good)
        #expect(grade(1_024, 100, connections: 10_000, stores: 12) == .advice)
        #expect(grade(1_024, 100, connections: 500, stores: 100) == .good)
        #expect(grade(1_024, 1_000, connections: 500, stores: 12) == .problem)
        #expect(OpenFiles(process: getpid()).map { $0.limit > 0 && $0.count ?? 1 > 0 } ?? true)
    }
}
