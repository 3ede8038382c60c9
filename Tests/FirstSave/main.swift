import ZoneKit  // or, on Linux, `import CloudKit`: code for Apple's framework compiles unchanged

let database = CKContainer(identifier: "iCloud.org.example.notes").privateCloudDatabase

let zone = try await database.save(CKRecordZone(zoneName: "Notes"))
let note = CKRecord(recordType: "Note", recordID: CKRecord.ID(zoneID: zone.zoneID))
note["title"] = "Buy milk"
try await database.save(note)

let changes = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
print("Notes on the relay: \(changes.modificationResultsByID.count)")
