import Records
import Testing
import ZoneKit
import ZoneTesting

/// The user IDs that records tell can be handed back: one's own has the name that stands for everybody's own.
@Suite struct OwnNameTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase
    let name: String

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.publicDatabase
        name = try await relay.device(of: "alice", named: "laptop").container.userRecordID().recordName
    }

    /// Whoever made a record of this name, as told to alice.
    private func maker(of name: String, in database: CKDatabase) async throws -> CKRecord.ID {
        let record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: name))
        let maker = try #require(try await database.save(record).creatorUserRecordID)
        #expect(maker.recordName == CKCurrentUserDefaultName)
        return maker
    }

    @Test(arguments: [CKDatabase.Scope.public, .private]) func inPredicates(scope: CKDatabase.Scope) async throws {
        let database = alice.container.database(with: scope)
        let me = try await maker(of: "mine", in: database)
        if scope == .public {
            try await relay.device(of: "bob").publicDatabase.save(CKRecord(recordType: "Post"))
        }
        let reference = CKRecord.Reference(recordID: me, action: .none)
        let predicates = [
            NSPredicate(format: "creatorUserRecordID == %@", me),
            NSPredicate(format: "creatorUserRecordID == %@", reference),
            NSPredicate(format: "lastModifiedUserRecordID IN %@", [me]),
        ]
        // Another container object: it was told nothing of its user yet.
        for predicate in predicates {
            let fresh = relay.device(of: "alice", named: "tablet").container.database(with: scope)
            let found = try await fresh.records(matching: CKQuery(recordType: "Post", predicate: predicate))
            #expect(found.matchResults.map(\.0.recordName) == ["mine"])
        }
    }

    @Test func inFields() async throws {
        let reference = CKRecord.Reference(recordID: try await maker(of: "post", in: database), action: .none)
        let comment = CKRecord(recordType: "Comment", recordID: CKRecord.ID(recordName: "comment"))
        comment["author"] = reference
        comment["readers"] = [reference]
        try await database.save(comment)
        let seen = try await relay.device(of: "bob").publicDatabase.record(for: comment.recordID)
        #expect((seen["author"] as? CKRecord.Reference)?.recordID.recordName == name)
        #expect((seen["readers"] as? [CKRecord.Reference])?.map(\.recordID.recordName) == [name])
        let query = CKQuery(recordType: "Comment", predicate: NSPredicate(format: "author == %@", reference))
        #expect(try await database.records(matching: query).matchResults.count == 1)
    }

    @Test func inFetches() async throws {
        let me = try await maker(of: "post", in: database)
        let user = try await database.record(for: me)
        #expect(user.recordType == CKRecord.SystemType.userRecord && user.recordID.recordName == name)
        let both = try await database.records(for: [me, user.recordID])
        #expect(both.count == 2)
        for result in both.values { #expect(try result.get().recordID == user.recordID) }
    }

    @Test func inSubscriptions() async throws {
        let me = try await maker(of: "post", in: database)
        let predicate = NSPredicate(format: "creatorUserRecordID == %@", me)
        try await database.save(CKQuerySubscription(recordType: "Post", predicate: predicate, subscriptionID: "mine"))
        let kept = try #require(try await database.subscription(for: "mine").subscription.query?.json)
        #expect(String(decoding: kept, as: UTF8.self).contains(name))
    }
}
