import CloudKit
import Testing
import ZoneTesting

/// Sightings of animals in the public database: a model type, queries by place and word, pages, pictures, and notes
/// that only their author can read.
private struct Sighting: Equatable {
    static let recordType = "Sighting"

    var species: String
    var count: Int
    var seen: Date
    var place: CLLocation
    var tags: [String]

    init(_ species: String, _ count: Int, _ latitude: CLLocationDegrees, _ tags: [String] = []) {
        self.species = species
        self.count = count
        seen = Date(timeIntervalSince1970: TimeInterval(count) * 86_400)
        place = CLLocation(latitude: latitude, longitude: 13)
        self.tags = tags
    }

    init?(_ record: CKRecord) {
        guard record.recordType == Self.recordType, let species = record["species"] as? String,
            let count = record["count"] as? Int, let seen = record["seen"] as? Date,
            let place = record["place"] as? CLLocation
        else { return nil }
        (self.species, self.count, self.seen, self.place) = (species, count, seen, place)
        tags = record["tags"] as? [String] ?? []
    }

    var record: CKRecord {
        let record = CKRecord(recordType: Self.recordType, recordID: CKRecord.ID(recordName: species))
        record.setValuesForKeys(["species": species, "count": count, "seen": seen, "place": place])
        record["tags"] = tags
        return record
    }

    static func == (a: Sighting, b: Sighting) -> Bool {
        a.species == b.species && a.count == b.count && a.seen == b.seen && a.tags == b.tags
            && a.place.distance(from: b.place) < 0.01
    }
}

@Suite(.timeLimit(.minutes(15))) struct FieldGuideTests {
    private let container: CKContainer
    private let database: CKDatabase
    private let sightings = [
        Sighting("heron", 1, 52, ["bird", "water"]), Sighting("stork", 2, 53, ["bird"]),
        Sighting("otter", 3, 54, ["water"]), Sighting("lynx", 4, 48), Sighting("owl", 5, 60, ["bird", "night"]),
    ]

    init() async throws {
        container = try TestRelay().device(of: "alice").container
        database = container.publicCloudDatabase
        let (saved, _) = try await database.modifyRecords(
            saving: sightings.map(\.record),
            deleting: [],
            savePolicy: .changedKeys,
            atomically: false
        )
        for result in saved.values { _ = try result.get() }
    }

    private func species(
        _ predicate: NSPredicate,
        _ order: [NSSortDescriptor] = [NSSortDescriptor(key: "species", ascending: true)]
    ) async throws -> [String] {
        let query = CKQuery(recordType: Sighting.recordType, predicate: predicate)
        query.sortDescriptors = order
        let (results, _) = try await database.records(matching: query)
        return try results.map { try Sighting($0.1.get())?.species ?? "?" }
    }

    @Test func everyQueryFindsTheExpectedRecords() async throws {
        let here = CLLocation(latitude: 52.1, longitude: 13)
        let radius: CGFloat = 250_000
        let near = NSPredicate(format: "distanceToLocation:fromLocation:(place, %@) < %f", here, radius)
        #expect(try await species(near) == ["heron", "otter", "stork"])
        let byDistance = CKLocationSortDescriptor(key: "place", relativeLocation: here)
        #expect(try await species(near, [byDistance]) == ["heron", "stork", "otter"])
        let nearBirds = NSCompoundPredicate(andPredicateWithSubpredicates: [
            near, NSPredicate(format: "tags CONTAINS %@", "bird"),
        ])
        #expect(try await species(nearBirds) == ["heron", "stork"])
        let range = NSPredicate(format: "count BETWEEN %@", [2, 4] as NSArray)
        #expect(try await species(range) == ["lynx", "otter", "stork"])
        let recent = NSPredicate(format: "seen >= %@", Date(timeIntervalSince1970: 4 * 86_400) as NSDate)
        let newest = NSSortDescriptor(key: "seen", ascending: false)
        #expect(try await species(recent, [newest]) == ["owl", "lynx"])
        #expect(try await species(NSPredicate(format: "species IN %@", ["owl", "lynx", "bear"])) == ["lynx", "owl"])
        #expect(try await species(NSPredicate(format: "ANY tags IN %@", ["night", "day"])) == ["owl"])
        #expect(try await species(NSPredicate(format: "NOT (species IN %@)", ["owl", "lynx", "otter"])).count == 2)
        let me = try await container.userRecordID()
        let mine = NSPredicate(format: "creatorUserRecordID == %@", CKRecord.Reference(recordID: me, action: .none))
        #expect(try await species(mine).count == 5)
        let named = NSPredicate(format: "recordID = %@", CKRecord.ID(recordName: "owl"))
        #expect(try await species(named) == ["owl"])
    }

    @Test func pagesFollowEachOther() async throws {
        let query = CKQuery(recordType: Sighting.recordType, predicate: NSPredicate(value: true))
        query.sortDescriptors = [NSSortDescriptor(key: "count", ascending: true)]
        // With operations, as an endless list does.
        var counts: [Int] = []
        var operation = CKQueryOperation(query: query)
        var pages = 0
        while true {
            pages += 1
            operation.resultsLimit = 2
            operation.desiredKeys = ["count"]
            operation.recordMatchedBlock = { id, result in
                guard let record = try? result.get() else { return }
                #expect(record.recordID == id && record["species"] == nil)
                counts.append(record["count"] as? Int ?? 0)
            }
            let cursor: CKQueryOperation.Cursor? = try await withCheckedThrowingContinuation { next in
                operation.queryResultBlock = { next.resume(with: $0) }
                database.add(operation)
            }
            guard let cursor else { break }
            operation = CKQueryOperation(cursor: cursor)
        }
        #expect(counts == [1, 2, 3, 4, 5] && pages == 3)
        // With a loop.
        var found: [Sighting] = []
        var (results, cursor) = try await database.records(matching: query, resultsLimit: 3)
        while true {
            found += results.compactMap { try? Sighting($0.1.get()) }
            guard let next = cursor else { break }
            (results, cursor) = try await database.records(continuingMatchFrom: next)
        }
        #expect(found == sightings)
    }

    @Test func picturesAndEncryptedNotesAreStored() async throws {
        #expect(try await container.accountStatus() == .available)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString, isDirectory: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let url = folder.appendingPathComponent("heron.jpg")
        try Data("a heron".utf8).write(to: url)
        let heron = try await database.record(for: CKRecord.ID(recordName: "heron"))
        heron["picture"] = CKAsset(fileURL: url)
        heron["size"] = CGFloat(0.5)
        try await database.save(heron)
        let read = try await database.record(for: heron.recordID)
        let picture = try #require(read["picture"] as? CKAsset)
        #expect(try Data(contentsOf: #require(picture.fileURL)) == Data("a heron".utf8))
        #expect(read["size"] as? CGFloat == 0.5 && Sighting(read) == sightings[0])

        let note = CKRecord(recordType: "Note")
        note["about"] = CKRecord.Reference(recordID: heron.recordID, action: .none)
        note.encryptedValues["text"] = "by the old bridge"
        note.encryptedValues["seen"] = [Date(timeIntervalSince1970: 1)]
        let saved = try await container.privateCloudDatabase.save(note)
        let kept = try await container.privateCloudDatabase.record(for: saved.recordID)
        #expect(kept.encryptedValues["text"] as? String == "by the old bridge" && kept["text"] == nil)
        #expect(kept.encryptedValues.allKeys().sorted() == ["seen", "text"] && kept.allKeys() == ["about"])
        #expect((kept["about"] as? CKRecord.Reference)?.recordID.recordName == "heron")
        // The public database has no encrypted values.
        heron.encryptedValues["text"] = "x"
        do {
            try await database.save(heron)
            Issue.record("saved")
        } catch let error as CKError { #expect(error.code == .invalidArguments) }
    }

    @Test func aFetchedSubscriptionMatchesTheWatchedSpecies() async throws {
        let subscription = CKQuerySubscription(
            recordType: Sighting.recordType,
            predicate: NSPredicate(format: "species == %@ AND count > %d", "lynx", 3),
            subscriptionID: "lynxes",
            options: [.firesOnRecordCreation, .firesOnRecordUpdate]
        )
        let info = CKSubscription.NotificationInfo(alertLocalizationKey: "SEEN", alertLocalizationArgs: ["species"])
        info.shouldBadge = true
        subscription.notificationInfo = info
        try await database.save(subscription)
        let fetched = try await database.allSubscriptions().compactMap { $0 as? CKQuerySubscription }
        let watched = sightings.filter { sighting in
            fetched.contains { $0.predicate.evaluate(with: sighting.record) }
        }
        #expect(watched.map(\.species) == ["lynx"] && fetched.first?.notificationInfo?.alertLocalizationKey == "SEEN")
    }
}
