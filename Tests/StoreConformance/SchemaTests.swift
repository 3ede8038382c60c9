import Foundation
import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// A container's schema, changed by the command line while a store is open.
@Suite struct SchemaTests {
    private let place = TestStore.current.makeHome(.lasting)
    private let schemas: any ContainerSchemas
    private let user = UserID.alice

    init() { schemas = place.schemas(of: ContainerEnvironment.test.container) }

    private static func schema(_ declarations: String) -> Schema {
        SchemaText(parsing: "DEFINE SCHEMA \(declarations)").schema
    }

    private static func put(_ schema: Schema, into schemas: any ContainerSchemas, _ environment: Records.Environment)
        throws
    {
        try schemas.change(environment) { old in
            var new = schema
            new.version = old.version
            return (new, ())
        }
    }

    private static let rich = schema(
        """
        CREATE ROLE R;
        RECORD TYPE A (
            "___modTime" TIMESTAMP SORTABLE, a STRING SEARCHABLE, b LIST<ENCRYPTED INT64>, n NUMBER, m NUMBER PREFERRED AS INT64,
            GRANT READ, WRITE TO R, GRANT READ TO "_world"
        );
        RECORD TYPE B ( a STRING );
        """
    )

    @Test("a stored schema is read back") func roundTrip() async throws {
        #expect(try schemas.schema(of: .development) == Schema())
        #expect(!place.stores().isThere(.test), "reading must not create a store")
        var schema = Self.rich
        schema.members = [UserID("_x"): [Role("R")]]
        try Self.put(schema, into: schemas, .development)
        schema.version = 1
        #expect(try schemas.schema(of: .development) == schema)
        // Removed declarations are gone, and can be declared again.
        try Self.put(Self.schema("RECORD TYPE B ( b INT64 );"), into: schemas, .development)
        #expect(try schemas.schema(of: .development).types["A"] == nil)
        #expect(try schemas.schema(of: .development).roles.isEmpty)
        #expect(try schemas.schema(of: .development).types["B"]?.fields.keys.sorted() == ["b"])
        try Self.put(Self.rich, into: schemas, .development)
        #expect(try schemas.schema(of: .development).types == Self.rich.types)
        #expect(try schemas.schema(of: .production) == Schema())
    }

    @Test("an open store uses a changed schema from the next commit") func nextCommit() async throws {
        let stores = place.stores()
        defer { stores.close() }
        let store = try stores.store(of: .test)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType(fields: ["title": .init(.scalar(.string))])])
        }
        var changed = try schemas.schema(of: .development)
        #expect(changed == store.currentSchema)
        changed.types["Note"]?.fields["title"]?.indexes = []
        changed.types["Task"] = RecordType()
        changed.members[user] = [Role("R")]
        try Self.put(changed, into: schemas, .development)
        let seen = try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.schema
        }
        #expect(seen.types == changed.types)
        #expect(seen.members == changed.members)
        #expect(seen.version == 2)
        #expect(store.currentSchema == seen)
        // The record that the store then writes is in the file, under numbers that do not collide.
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Task": RecordType(fields: ["done": .init(.scalar(.int64))])])
        }
        #expect(try schemas.schema(of: .development).types["Task"]?.fields.keys.sorted() == ["done"])
        #expect(try schemas.schema(of: .development).version == 3)
    }

    /// The first commit of a store draws its epoch, and checks nothing else.
    @Test("a store that has not written yet uses a changed schema") func firstCommit() async throws {
        let earlier = place.stores()
        try await earlier.store(of: .test).write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType(fields: ["title": .init(.scalar(.string))])])
        }
        earlier.close()
        let stores = place.stores()
        defer { stores.close() }
        let store = try stores.store(of: .test)
        try Self.put(
            Self.schema("RECORD TYPE A ( a STRING );"),
            into: schemas,
            .development
        )
        for _ in 0..<2 {
            let seen = try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                try writer.schema
            }
            #expect(Array(seen.types.keys) == ["A"])
        }
    }

    /// A process sees its own changes at once.
    @Test("an open store reads with a changed schema at once") func nextRead() async throws {
        let stores = place.stores()
        defer { stores.close() }
        let store = try stores.store(of: .test)
        for number in 0..<10 {
            try Self.put(Self.schema("RECORD TYPE A\(number) ( a STRING );"), into: schemas, .development)
            let read = try store.read { reader throws(RelayError) in try reader.schema }
            #expect(Array(read.types.keys) == ["A\(number)"])
            #expect(store.currentSchema == read)
        }
    }

    @Test("a write that was prepared under the old schema is prepared again") func preparedWrites() async throws {
        let stores = place.stores()
        defer { stores.close() }
        let home = ContainerEnvironment(ContainerEnvironment.test.container, .production)
        try Self.put(Self.schema("RECORD TYPE Note ( title STRING );"), into: schemas, .production)
        let store = try stores.store(of: home)
        let fields = #"{"recordName":"n","recordType":"Note","fields":{"title":{"value":"a"}}}"#
        let record = try RecordInput(JSONDocument(parsing: Array(fields.utf8)).root)
        try Self.put(
            Self.schema(#"RECORD TYPE Note ( title STRING, GRANT CREATE TO "_icloud" );"#),
            into: schemas,
            .production
        )
        let request = ModifyRecords(
            [.init(.create, record, name: "n")],
            in: ZoneID(ZoneID.defaultName, owner: Zone.publicOwner),
            of: DatabaseAddress(scope: .public, caller: Caller(.user(user), deviceID: "phone")),
            atomically: false,
            schema: store.currentSchema,
            rules: SchemaRules(mayGrow: false, scope: .public, limits: Limits()),
            now: Timestamp(milliseconds: 1),
            newName: { "unused" }
        )
        try Self.put(
            Self.schema(#"RECORD TYPE Note ( title INT64, GRANT CREATE TO "_icloud" );"#),
            into: schemas,
            .production
        )
        let result = try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try request.run(in: writer)
        }
        #expect(result.outcomes.first?.error?.reason.contains("expected type INT64") == true)
    }

    /// Records that were saved while the index was not declared are found once it is declared again.
    @Test("an index that is removed and declared again is rebuilt") func indexes() async throws {
        try Self.put(Self.schema("RECORD TYPE Note ( title STRING QUERYABLE );"), into: schemas, .development)
        let stores = place.stores(tuning: .indexesOnly)
        defer { stores.close() }
        let store = try stores.store(of: .test)
        let zone = try await store.write(touching: user) { writer throws(RelayError) in
            try writer.makeZone(ZoneID("Notes", owner: user), by: "phone")
        }
        let query = Query(
            recordType: "Note",
            filters: [.init(.own("title"), .equals, [.string("x")])]
        )
        func found() async throws -> [String] {
            try await store.query { reader throws(RelayError) in
                try reader.page(of: query, in: [zone], after: nil, limit: 10, bytes: .max).records.map(
                    \.record.name
                )
            }
        }
        try await save("a", in: zone, of: store)
        #expect(try await found() == ["a"])
        try Self.put(Self.schema("RECORD TYPE Note ( title STRING );"), into: schemas, .development)
        try await save("b", in: zone, of: store)
        try Self.put(Self.schema("RECORD TYPE Note ( title STRING QUERYABLE );"), into: schemas, .development)
        try await save("c", in: zone, of: store)
        #expect(try await found() == ["a", "b", "c"])
    }

    private func save(_ name: String, in zone: Zone, of store: any Store) async throws {
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
        try await store.write(touching: zone.id.owner) { writer throws(RelayError) in
            let record = StoredRecord(
                name: name,
                type: "Note",
                change: writer.takeChangeNumber(),
                created: stamp,
                modified: stamp,
                fields: Array(#"{"title":{"value":"x","type":"STRING"}}"#.utf8)
            )
            try writer.put([record], replacing: [:], in: try writer.zone(zone.id) ?? zone, by: "phone")
        }
    }

    @Test("removed fields are remembered until a reset") func removedFields() async throws {
        try Self.put(Self.schema("RECORD TYPE Note ( a STRING, b ENCRYPTED INT64 );"), into: schemas, .development)
        try Self.put(Self.schema("RECORD TYPE Note ( a STRING );"), into: schemas, .development)
        let removedFields = try schemas.schema(of: .development).removedFields
        #expect(removedFields["Note"]?["b"]?.type == .scalar(.int64))
        #expect(removedFields["Note"]?["b"]?.isEncrypted == true)
        try Self.put(Schema(), into: schemas, .development)
        #expect(try schemas.schema(of: .development).removedFields["Note"]?.keys.sorted() == ["a", "b"])
        try schemas.resetDevelopment { UInt64.random(in: 1 ... .max) }
        #expect(try schemas.schema(of: .development).removedFields.isEmpty)
    }

    /// A reset removes the folder of assets; the relay removes any assets that remain.
    @Test("assets that a reset left are removed") func leftAssets() async throws {
        var stores = place.stores()
        func keepAsset() throws -> AssetHash {
            let intake = try stores.assets(of: .test).begin()
            try intake.take(Array("content".utf8))
            return try intake.finish().hash
        }
        let hash = try keepAsset()
        try await save("photo", holding: hash, in: stores.store(of: .test))
        let later = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) + 3_600_000)
        #expect(try await stores.removeUnusedAssets(before: later) == 0)
        stores.close()

        try schemas.resetDevelopment { UInt64.random(in: 1 ... .max) }
        stores = place.stores()
        #expect(try stores.assets(of: .test).file(of: hash) == nil)
        // As if the reset had not been able to remove it.
        #expect(try keepAsset() == hash)
        #expect(try await stores.removeUnusedAssets(before: later) == 1)
        #expect(try stores.assets(of: .test).file(of: hash) == nil)
        stores.close()
    }

    private func save(_ name: String, holding hash: AssetHash, in store: any Store) async throws {
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 0))
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Photo": RecordType(fields: ["file": .init(.scalar(.asset))])])
            let id = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let asset = Asset(fileChecksum: hash.checksum, size: 7)
            let record = StoredRecord(
                name: name,
                type: "Photo",
                change: writer.takeChangeNumber(),
                created: stamp,
                modified: stamp,
                fields: FieldsJSON.encode([.init(name: "file", value: .asset(asset))])
            )
            try writer.put([record], replacing: [:], in: zone, by: "")
        }
    }

    @Test("a reset keeps production's schema and no records") func reset() async throws {
        try Self.put(Self.rich, into: schemas, .production)
        let stores = place.stores()
        let store = try stores.store(of: .test)
        let epoch = try store.epoch(of: user)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
        }
        try await provision(store)
        stores.close()
        try schemas.resetDevelopment { UInt64.random(in: 1 ... .max) }
        #expect(try schemas.schema(of: .development).types == Self.rich.types)
        #expect(try schemas.schema(of: .development).roles == Self.rich.roles)

        let again = place.stores()
        defer { again.close() }
        let after = try again.store(of: .test)
        #expect(try after.epoch(of: user) != epoch)
        let (zones, record) = try after.read { reader throws(RelayError) in
            let zone = try reader.zone(ZoneID(ZoneID.defaultName, owner: Zone.publicOwner))
            return (
                try reader.liveZones(of: user),
                try zone.map { zone throws(RelayError) in try reader.records(named: [user.recordName], in: zone) }
            )
        }
        #expect(zones.isEmpty)
        #expect(record?.isEmpty == true)
        // The store works, and its numbers start again.
        try await provision(after)
    }

    private func provision(_ store: any Store) async throws {
        let provision = ProvisionUser(user, now: Timestamp(milliseconds: 1))
        for step in try store.read({ reader throws(RelayError) in try provision.remainingSteps(in: reader) }) {
            try await store.write(touching: provision.owner(of: step)) { writer throws(RelayError) in
                try provision.run(step, in: writer)
            }
        }
    }

    @Test("a definition has effect from its commit on, and increments the version") func definitions() async throws {
        let store = try TestStore.current.makeHome().store()
        let before = store.currentSchema.version
        let inside = try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Note": .titled, "Task": RecordType()])
            return try writer.schema
        }
        #expect(inside.types["Note"] == .titled && inside.version == before + 1)
        #expect(store.currentSchema == inside)
        #expect(try store.look { try $0.schema } == inside)
        try await store.write(touching: .bob) { writer throws(RelayError) in try writer.define(["Note": RecordType()]) }
        #expect(store.currentSchema.types["Note"] == RecordType() && store.currentSchema.types["Task"] != nil)
        #expect(store.currentSchema.version == before + 2)
    }

    @Test("a change that returns no schema changes nothing, and one that throws changes nothing") func unchanged()
        throws
    {
        try Self.put(Self.rich, into: schemas, .development)
        let before = try schemas.schema(of: .development)
        #expect(try schemas.change(.development) { (nil, $0.types.count) } == 2)
        #expect(throws: RelayError.recordNotFound) {
            try schemas.change(.development) { _ -> (Schema?, Void) in throw RelayError.recordNotFound }
        }
        #expect(try schemas.schema(of: .development) == before)
    }

    @Test("a schema is promoted to production as a whole") func promotion() throws {
        try Self.put(Self.rich, into: schemas, .development)
        #expect(try schemas.promoting(applies: false).isAllowed)
        #expect(try schemas.schema(of: .production) == Schema())
        #expect(try schemas.promoting(applies: true).isAllowed)
        #expect(try schemas.schema(of: .production).types == Self.rich.types)
    }
}
