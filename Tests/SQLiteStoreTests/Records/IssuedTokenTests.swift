import Records
import RelayCore
import SQLiteStore
import Synchronization
import Testing

/// Tokens of zones and databases that relays issued until November 2026: devices hold them.
@Suite struct IssuedTokenTests {
    private static let alice = UserID("_00000000000000000000000000000001")
    private static let bob = UserID("_00000000000000000000000000000002")
    private static let carol = UserID("_00000000000000000000000000000003")
    private static let notes = ZoneID("Notes", owner: alice)
    private static let plans = ZoneID("Plans", owner: carol)

    private let store: SQLiteStore

    /// Two users who share a zone each with bob; epochs, identities and numbers are the same in every run.
    init() async throws {
        let drawn = Mutex<UInt64>(0)
        store = try SQLiteStore(
            .memory,
            draw: {
                drawn.withLock {
                    $0 += 1
                    return $0 << 32
                }
            }
        )
        for (zone, names) in [(Self.notes, ["a", "b", "c"]), (Self.plans, ["p"])] {
            try await store.write(touching: zone.owner) { writer throws(RelayError) in
                if try writer.schema.types["Note"] == nil { try writer.define(["Note": RecordType()]) }
                _ = try writer.makeZone(ZoneID("Empty", owner: zone.owner), by: "")
                _ = try writer.makeZone(zone, by: "")
            }
            try await save(names, in: zone)
            try await share(zone)
        }
    }

    private func save(_ names: [String], in id: ZoneID, isDeleted: Bool = false) async throws {
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: names, in: zone)
            let records = names.map { Self.record($0, "Note", writer.takeChangeNumber(), id.owner, isDeleted) }
            try writer.put(records, replacing: before, in: zone, by: "")
        }
    }

    private func share(_ id: ZoneID, with permission: Share.Permission = .readOnly) async throws {
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: [Share.zoneWideName], in: zone)
            var record = Self.record(
                Share.zoneWideName,
                Share.recordType,
                writer.takeChangeNumber(),
                id.owner,
                permission == .none
            )
            record.shareReference = ShareReference(shortGUID: id.zoneName, record: Share.zoneWideName)
            if permission != .none {
                let bob = Share.Participant(id: "1", permission: permission, hasAccepted: true, user: Self.bob)
                record.sharing = Share(root: nil, shortGUID: id.zoneName, participants: [bob])
            }
            try writer.put([record], replacing: before, in: zone, by: "")
        }
    }

    private static func record(
        _ name: String,
        _ type: String,
        _ change: UInt64,
        _ owner: UserID,
        _ isDeleted: Bool
    ) -> StoredRecord {
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: owner, device: DeviceFingerprint(bits: 1))
        return StoredRecord(
            name: name,
            type: type,
            change: change,
            created: stamp,
            modified: stamp,
            fields: Array("{}".utf8),
            isDeleted: isDeleted
        )
    }

    private func database(_ scope: DatabaseScope, of user: UserID) -> DatabaseAddress {
        DatabaseAddress(scope: scope, caller: Caller(.user(user), deviceID: "phone"))
    }

    private func zones(
        _ scope: DatabaseScope,
        of user: UserID,
        since token: String? = nil,
        limit: Int = 50
    ) throws -> DatabaseChanges.Page {
        let request = DatabaseChanges(database: database(scope, of: user), token: token, limit: limit)
        return try store.read { reader throws(RelayError) in
            try request.read(from: reader, epochs: store.epochs(of:))
        }
    }

    private func records(
        _ zone: ZoneID,
        _ scope: DatabaseScope,
        of user: UserID,
        since token: String? = nil,
        limit: Int = 50,
        backwards: Bool = false
    ) throws -> (names: [String], page: ZoneChanges.Page) {
        let request = ZoneChanges(
            zone: zone,
            of: database(scope, of: user),
            token: token,
            limit: limit,
            isReversed: backwards
        )
        var names: [String] = []
        let page = try store.read { reader throws(RelayError) in
            try request.read(from: reader, epochs: store.epochs) { names.append(($0.isDeleted ? "-" : "") + $0.name) }
        }
        return (names, page)
    }

    private func names(_ page: DatabaseChanges.Page) -> [String] {
        page.zones.map { ($0.isDeleted ? "-" : "") + $0.id.zoneName }
    }

    // MARK: Tokens that devices hold

    private enum Issued {
        /// After the first zone of alice's database, and at its end.
        static let ownPage = "AuQ/paSrVnnlAAAAAQAAAAAAAAAAAAAAAgAAAAAAAAAA"
        static let own = "AuQ/paSrVnnlAAAAAQAAAAAAAAAAAAAABwAAAAAAAAAA"
        /// After the first zone of bob's shared database, and at its end.
        static let sharedPage = "AuQ+AqEg81C0AAAAAQAAAAAAAAAAAAAABwAAAAAAAAAA"
        static let shared = "AuQ+AqEg81C0AAAAAQAAAAAAAAAAAAAACwAAAAAAAAAA"
        /// Of alice's shared database, in which there is nothing.
        static let sharedNothing = "AuQ+BaEg81XNAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAA"
        /// In the middle of a listing of alice's zone, after its first record; at its end; and read backwards.
        static let listing = "AQAAAAQAAAAAAAAAAQAAAAAAAAAAAAAABAAAAAAAAAAH"
        static let zone = "AQAAAAQAAAAAAAAAAQAAAAAAAAAAAAAABwAAAAAAAAAA"
        static let backwards = "AwAAAAQAAAAAAAAAAQAAAAAAAAAAAAAABwAAAAAAAAAAAAAAAAAAAAc="
        /// The end of the same zone as bob sees it.
        static let view = "AQAAAAUAAAAAAAAAAQAAAAAAAAAAAAAABwAAAAAAAAAA"
    }

    @Test func tokensOfAPrivateDatabaseStayValid() async throws {
        #expect(names(try zones(.private, of: Self.alice, since: Issued.ownPage)) == ["Notes"])
        let end = try zones(.private, of: Self.alice, since: Issued.own)
        #expect(names(end).isEmpty && end.token.encoded == Issued.own)
        try await save(["d"], in: Self.notes)
        #expect(names(try zones(.private, of: Self.alice, since: Issued.own)) == ["Notes"])
    }

    @Test func tokensOfZonesStayValid() async throws {
        let share = Share.zoneWideName
        #expect(try records(Self.notes, .private, of: Self.alice, since: Issued.listing).names == ["b", "c", share])
        #expect(
            try records(Self.notes, .private, of: Self.alice, since: Issued.backwards, backwards: true).names
                == ["c", "b", "a"]
        )
        for (token, scope, user) in [
            (Issued.zone, DatabaseScope.private, Self.alice), (Issued.view, .shared, Self.bob),
        ] {
            #expect(try records(Self.notes, scope, of: user, since: token).names.isEmpty)
        }
        try await save(["a"], in: Self.notes, isDeleted: true)
        #expect(try records(Self.notes, .private, of: Self.alice, since: Issued.zone).names == ["-a"])
        #expect(try records(Self.notes, .shared, of: Self.bob, since: Issued.view).names == ["-a"])
    }

    /// They are a position for all owners, and are followed by tokens with a position for each owner.
    @Test func tokensOfASharedDatabaseStayValid() async throws {
        #expect(names(try zones(.shared, of: Self.bob, since: Issued.sharedPage)) == ["Plans"])
        let end = try zones(.shared, of: Self.bob, since: Issued.shared)
        #expect(names(end).isEmpty && !end.moreComing)
        #expect(names(try zones(.shared, of: Self.alice, since: Issued.sharedNothing)).isEmpty)
        try await save(["d"], in: Self.notes)
        try await share(Self.plans, with: .none)
        for token in [Issued.shared, end.token.encoded] {
            let page = try zones(.shared, of: Self.bob, since: token)
            #expect(names(page).sorted() == ["-Plans", "Notes"])
            #expect(names(try zones(.shared, of: Self.bob, since: page.token.encoded)).isEmpty)
        }
        #expect(throws: RelayError.changeTokenExpired) { try zones(.shared, of: Self.alice, since: Issued.shared) }
    }

    // MARK: One position for each owner

    private func vector(_ page: DatabaseChanges.Page) throws -> VectorToken {
        guard case .vector(let token) = page.token else { throw RelayError.changeTokenExpired }
        return token
    }

    /// Owners may have epochs of their own; a token from before an owner had any data says nothing about that owner.
    @Test func epochsBelongToOwners() throws {
        let apart = Epochs(current: 99)
        func page(since token: String?) throws -> DatabaseChanges.Page {
            let request = DatabaseChanges(database: database(.shared, of: Self.bob), token: token, limit: 50)
            return try store.read { reader throws(RelayError) in
                try request.read(from: reader) { $0 == Self.carol ? apart : store.epochs(of: $0) }
            }
        }
        let issued = try page(since: Issued.shared)
        #expect(names(issued) == ["Plans"])
        let carol = VectorToken.fingerprint(of: Self.carol)
        #expect(try vector(issued).places.first { $0.owner == carol }?.epoch == 99)
        #expect(names(try page(since: issued.token.encoded)).isEmpty)
        // The other owner's epoch does not count.
        let own = try zones(.shared, of: Self.bob).token.encoded
        #expect(throws: RelayError.changeTokenExpired) { try page(since: own) }
    }
}
