import Records
import Testing
import ZoneKit
import ZoneTesting

/// User IDs from records can be used again.
///
/// The current user's ID has the name that means the current user.
@Suite struct CurrentUserIDTests {
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

    /// The creator of a new record of this name, as seen by alice.
    private func creator(of name: String, in database: CKDatabase) async throws -> CKRecord.ID {
        let record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: name))
        let creator = try #require(try await database.save(record).creatorUserRecordID)
        #expect(creator.recordName == CKCurrentUserDefaultName)
        return creator
    }

    @Test(arguments: [CKDatabase.Scope.public, .private])
    func creatorIDsWorkInPredicates(scope: CKDatabase.Scope) async throws {
        let database = alice.container.database(with: scope)
        let me = try await creator(of: "mine", in: database)
        if scope == .public {
            try await relay.device(of: "bob").publicDatabase.save(CKRecord(recordType: "Post"))
        }
        let reference = CKRecord.Reference(recordID: me, action: .none)
        let predicates = [
            NSPredicate(format: "creatorUserRecordID == %@", me),
            NSPredicate(format: "creatorUserRecordID == %@", reference),
            NSPredicate(format: "lastModifiedUserRecordID IN %@", [me]),
        ]
        // A new container object does not know its user yet.
        for predicate in predicates {
            let fresh = relay.device(of: "alice", named: "tablet").container.database(with: scope)
            let found = try await fresh.records(matching: CKQuery(recordType: "Post", predicate: predicate))
            #expect(found.matchResults.map(\.0.recordName) == ["mine"])
        }
    }

    @Test func creatorIDsWorkInFields() async throws {
        let reference = CKRecord.Reference(recordID: try await creator(of: "post", in: database), action: .none)
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

    @Test func creatorIDsWorkInFetches() async throws {
        let me = try await creator(of: "post", in: database)
        let user = try await database.record(for: me)
        #expect(user.recordType == CKRecord.SystemType.userRecord && user.recordID.recordName == name)
        let both = try await database.records(for: [me, user.recordID])
        #expect(both.count == 2)
        for result in both.values { #expect(try result.get().recordID == user.recordID) }
    }

    @Test func creatorIDsWorkInSubscriptions() async throws {
        let me = try await creator(of: "post", in: database)
        let predicate = NSPredicate(format: "creatorUserRecordID == %@", me)
        try await database.save(CKQuerySubscription(recordType: "Post", predicate: predicate, subscriptionID: "mine"))
        let kept = try #require(try await database.subscription(for: "mine").subscription.query?.json)
        #expect(String(decoding: kept, as: UTF8.self).contains(name))
    }
}
