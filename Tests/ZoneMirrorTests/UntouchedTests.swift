import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A record whose values have more than one valid encoding.
private struct Recipe: SyncedRecord, Equatable {
    struct Details: Codable, Equatable, Sendable {
        var cook = ""
    }

    var id = RecordName()
    var title = ""
    var details = Details()
    var key: UUID?
    var weight: Float = 0

    init() {}
}

/// An edit changes only the properties that the program has changed.
///
/// See Sync.md, "Unknown records" and "Merging".
@Suite(.timeLimit(.minutes(15))) struct UntouchedTests {
    @Test func anotherEncodingOfAValueIsNotAChange() async throws {
        let relay = try TestRelay()
        let model = MirrorModel(Recipe.self)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model)
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        try await raw.save(CKRecordZone(zoneID: zone))
        let record = CKRecord(recordType: "CD_Recipe", recordID: CKRecord.ID(recordName: "r", zoneID: zone))
        let details = Data(#"{"newer":1,"cook":"Ada"}"#.utf8)
        record["CD_entityName"] = "Recipe"
        record["CD_details"] = details
        record["CD_key"] = "8f0f2b6e-7f0a-4c55-9a0e-0a1b2c3d4e5f"
        record["CD_weight"] = 0.1
        try await raw.save(record)
        try await phone.container.fetchChanges()
        for change in [{ $0.title = "x" }, { $0.details.cook = "Bea" }] as [(inout Recipe) -> Void] {
            let context = phone.context()
            try context.edit(Recipe.self, "r", change)
            // The second edit in one context is based on the first.
            try context.edit(Recipe.self, "r") { $0.title += "y" }
            try context.save()
            try await phone.sync()
            let database = try #require(phone.container.database(of: phone.store))
            let (key, weight, kept) = try await database.read { db in
                (
                    try String.fetchOne(db, sql: "SELECT key FROM Recipe"),
                    try Double.fetchOne(db, sql: "SELECT weight FROM Recipe"),
                    try Data.fetchOne(db, sql: "SELECT details FROM Recipe")
                )
            }
            #expect(key == "8f0f2b6e-7f0a-4c55-9a0e-0a1b2c3d4e5f" && weight == 0.1)
            let title = try #require(try context.object(Recipe.self, "r")?.title)
            #expect(kept == (title == "xy" ? details : Data(#"{"cook":"Bea"}"#.utf8)))
        }
    }
}
