import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Single items that the relay could not read must not be reported as missing.
@Suite(.timeLimit(.minutes(15))) struct UnreadableItemTests {
    let relay: TestRelay
    let phone: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")
    private let broken = "\"serverErrorCode\":\"INTERNAL_ERROR\",\"reason\":\"broken\""

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        try await phone.privateDatabase.save(zone)
    }

    private func save() async throws -> CKRecord.ID {
        let record = CKRecord(recordType: "Entry", recordID: .init(recordName: "a", zoneID: zone.zoneID))
        return try await phone.privateDatabase.save(record).recordID
    }

    private func fetch() async throws -> CKServerChangeToken {
        try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil).changeToken
    }

    @Test func anErrorWithoutARecordNameFailsTheFetch() async throws {
        _ = try await save()
        let token = try await fetch()
        let body = """
            {"zones":[{"zoneID":{"zoneName":"Diary"},"syncToken":"\(token.encoded)","moreComing":false,\
            "records":[{\(broken)}]}]}
            """
        phone.network.fail(request: 1, of: "changes/zone", by: .answered(status: 200, body: body))
        await #expect(throws: CKError.self) { _ = try await fetch() }
    }

    @Test func aLookupWithoutTheRecordIsNotReportedAsUnknownItem() async throws {
        let id = try await save()
        for body in ["{\"records\":[{\(broken)}]}", "{\"records\":[]}"] {
            phone.network.fail(request: 1, of: "records/lookup", by: .answered(status: 200, body: body))
            let error = await #expect(throws: CKError.self) { _ = try await phone.privateDatabase.record(for: id) }
            #expect(error?.code == .internalError)
        }
    }

    @Test func aQueryReportsUnreadableRecords() async throws {
        let record = CKRecord(recordType: "Post", recordID: .init(recordName: "p"))
        record["n"] = 1
        try await phone.publicDatabase.save(record)
        let body = "{\"records\":[{\"recordName\":\"p\",\(broken)}]}"
        phone.network.fail(request: 1, of: "records/query", by: .answered(status: 200, body: body))
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(value: true))
        let page = try await phone.publicDatabase.records(matching: query)
        #expect(page.matchResults.map(\.0.recordName) == ["p"])
        #expect(throws: CKError.self) { try page.matchResults.first?.1.get() }
    }

    @Test func aListingWithAnErrorFails() async throws {
        let body = "{\"zones\":[{\"zoneID\":{\"zoneName\":\"Diary\"},\(broken)}]}"
        phone.network.fail(request: 1, of: "zones/list", by: .answered(status: 200, body: body))
        await #expect(throws: CKError.self) { try await phone.privateDatabase.allRecordZones() }
    }
}
