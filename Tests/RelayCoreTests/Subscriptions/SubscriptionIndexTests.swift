import Records
import RelayCore
import Testing
import Wire

/// Compares the index with an evaluation of every subscription.
@Suite struct SubscriptionIndexTests {
    private static let users = (0..<4).map { UserID("_user\($0)") }
    private static let schema = Schema(
        version: 1,
        types: [
            "Note": RecordType(fields: [
                "n": .init(.scalar(.int64)), "t": .init(.scalar(.string)), "l": .init(.list(.string)),
                "d": .init(.scalar(.double)),
            ]),
            "Task": RecordType(fields: ["n": .init(.scalar(.int64))]),
        ]
    )

    /// A deterministic random number generator.
    private struct Draw {
        var state: UInt64

        mutating func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
    }

    /// A subscription, kept beside the index.
    private struct Known {
        var user: UserID
        var scope: DatabaseScope
        var subscription: Subscription
    }

    private func filter(_ draw: inout Draw) -> String {
        let number = draw.below(4)
        switch draw.below(7) {
        case 0: return #"{"comparator":"EQUALS","fieldName":"n","fieldValue":{"value":\#(number)}}"#
        case 1: return #"{"comparator":"NOT_EQUALS","fieldName":"n","fieldValue":{"value":\#(number)}}"#
        case 2: return #"{"comparator":"GREATER_THAN","fieldName":"n","fieldValue":{"value":\#(number)}}"#
        case 3: return #"{"comparator":"EQUALS","fieldName":"t","fieldValue":{"value":"t\#(number)"}}"#
        case 4:
            return
                #"{"comparator":"IN","fieldName":"n","fieldValue":{"value":[\#(number),2],"type":"INT64_LIST"}}"#
        case 5: return #"{"comparator":"LIST_CONTAINS","fieldName":"l","fieldValue":{"value":"t\#(number)"}}"#
        default: return #"{"comparator":"BEGINS_WITH","fieldName":"t","fieldValue":{"value":"t"}}"#
        }
    }

    private func subscription(_ id: Int, _ owner: UserID, _ draw: inout Draw) -> Subscription {
        let type = draw.below(4) == 0 ? "Task" : "Note"
        let filters = (0..<draw.below(3)).map { _ in
            type == "Task"
                ? #"{"comparator":"EQUALS","fieldName":"n","fieldValue":{"value":1}}"# : filter(&draw)
        }
        let zone = draw.below(3) == 0 ? ZoneID("A", owner: owner) : nil
        return Subscription(
            id: "s\(id)",
            kind: .query(
                SubscribedQuery(
                    recordType: type,
                    json: Array(#"{"recordType":"\#(type)","filterBy":[\#(filters.joined(separator: ","))]}"#.utf8),
                    zone: zone,
                    firesOn: RecordEvents(rawValue: 1 + draw.below(7))
                )
            )
        )
    }

    private func record(_ draw: inout Draw) -> StoredRecord {
        let isTask = draw.below(4) == 0
        var entries: [FieldsJSON.Entry] = []
        if draw.below(5) > 0 { entries.append(.init(name: "n", value: .int64(Int64(draw.below(4))))) }
        if !isTask, draw.below(3) > 0 { entries.append(.init(name: "t", value: .string("t\(draw.below(4))"))) }
        if !isTask, draw.below(3) > 0 {
            entries.append(.init(name: "l", value: .list(.string, [.string("t\(draw.below(4))"), .string("x")])))
        }
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: 1),
            by: Self.users[draw.below(4)],
            device: DeviceFingerprint(bits: 1)
        )
        return StoredRecord(
            name: "r",
            type: isTask ? "Task" : "Note",
            change: 1,
            created: stamp,
            modified: stamp,
            fields: FieldsJSON.encode(entries)
        )
    }

    /// Returns the expected matches, by evaluating every subscription.
    private func expected(_ known: [Known], _ change: CommittedRecord) throws -> Set<String> {
        let wasThere = change.before.map { !$0.isDeleted } ?? false
        guard wasThere || !change.after.isDeleted else { return [] }
        let event: RecordEvents = change.after.isDeleted ? .delete : wasThere ? .update : .create
        let record = try #require(change.after.isDeleted ? change.before : change.after)
        var found: Set<String> = []
        for item in known {
            guard let query = item.subscription.query, query.recordType == record.type, query.firesOn.contains(event),
                (query.zone ?? change.zone) == change.zone,
                item.scope == .public ? change.zone.owner == Zone.publicOwner : change.zone.owner == item.user,
                let type = Self.schema.types[record.type]
            else { continue }
            let parsed = try QueryCodec.read(JSONDocument(parsing: query.json).root, schema: Self.schema)
            let match = QueryMatch(parsed.filters, type: type)
            guard match.matches(for: try QueryValues(record, fields: match.fieldNames)) else { continue }
            found.insert("\(item.user)/\(item.scope)/\(item.subscription.id)")
        }
        return found
    }

    @Test(arguments: 0..<40) func theIndexFindsTheMatchesOfEverySubscription(_ seed: Int) throws {
        var draw = Draw(state: UInt64(seed) &* 7_919 &+ 1)
        var index = SubscriptionIndex()
        var known: [Known] = []
        for step in 0..<150 {
            let user = Self.users[draw.below(4)]
            let scope: DatabaseScope = draw.below(3) == 0 ? .public : .private
            let owner = scope == .public ? Zone.publicOwner : user
            let id = draw.below(12)
            known.removeAll { $0.user == user && $0.scope == scope && $0.subscription.id == "s\(id)" }
            let made = draw.below(4) > 0 ? subscription(id, owner, &draw) : nil
            if let made { known.append(Known(user: user, scope: scope, subscription: made)) }
            index.apply(.init(user: user, scope: scope, id: "s\(id)", subscription: made), schema: Self.schema)
            #expect(index.count == known.count)
            guard step % 3 == 0 else { continue }
            var after = record(&draw)
            var before: StoredRecord? = draw.below(2) == 0 ? nil : record(&draw)
            before?.type = after.type
            if before != nil, draw.below(3) == 0 {
                after.isDeleted = true
                after.fields = FieldsJSON.empty
            }
            let zone = ZoneID(draw.below(2) == 0 ? "A" : "B", owner: owner)
            let change = CommittedRecord(zone: zone, before: before, after: after, device: "d")
            let mayMatch = index.mayMatchAny(change, schema: Self.schema)
            let found = try index.matches(change, schema: Self.schema)
            #expect(mayMatch || found.isEmpty, "seed \(seed), step \(step)")
            #expect(
                Set(found.map { "\($0.user)/\($0.scope)/\($0.subscription.id)" }) == (try expected(known, change)),
                "seed \(seed), step \(step)"
            )
        }
    }

    /// A write that matches none of many subscriptions is recognised without evaluating them.
    @Test func aRecordWithoutMatchesIsRecognisedFromTheIndex() throws {
        var index = SubscriptionIndex()
        let user = Self.users[0]
        func subscribe(_ id: String, _ filters: String, zone: ZoneID? = nil) {
            let json = Array(#"{"recordType":"Note","filterBy":[\#(filters)]}"#.utf8)
            let query = SubscribedQuery(recordType: "Note", json: json, zone: zone, firesOn: .create)
            index.apply(
                .init(user: user, scope: .private, id: id, subscription: Subscription(id: id, kind: .query(query))),
                schema: Self.schema
            )
        }
        var draw = Draw(state: 1)
        func mayConcern(_ fields: [FieldsJSON.Entry], type: String = "Note", version: Int = 1) -> Bool {
            var made = record(&draw)
            made.type = type
            made.fields = FieldsJSON.encode(fields)
            var schema = Self.schema
            schema.version = version
            let change = CommittedRecord(zone: ZoneID("A", owner: user), before: nil, after: made, device: "d")
            return index.mayMatchAny(change, schema: schema)
        }
        for number in 0..<100 {
            subscribe("t\(number)", #"{"comparator":"EQUALS","fieldName":"t","fieldValue":{"value":"t\#(number)"}}"#)
        }
        subscribe("l", #"{"comparator":"LIST_CONTAINS","fieldName":"l","fieldValue":{"value":"x"}}"#)
        #expect(!mayConcern([.init(name: "t", value: .string("other"))]))
        #expect(!mayConcern([.init(name: "n", value: .int64(1))]))
        #expect(!mayConcern([.init(name: "t", value: .string("t7"))], type: "Task"))
        #expect(!mayConcern([.init(name: "l", value: .list(.string, [.string("y")]))]))
        #expect(mayConcern([.init(name: "t", value: .string("t7"))]))
        #expect(mayConcern([.init(name: "l", value: .list(.string, [.string("y"), .string("x")]))]))
        // Under a new schema a query may match other records.
        #expect(mayConcern([.init(name: "t", value: .string("other"))], version: 2))
        subscribe("any", "")
        #expect(mayConcern([.init(name: "t", value: .string("other"))]))
    }

    @Test func earlierSubscriptionsMatchOnANewField() throws {
        var index = SubscriptionIndex()
        let user = Self.users[0]
        let query = SubscribedQuery(
            recordType: "Note",
            json: Array(
                #"{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"late","fieldValue":{"value":1}}]}"#
                    .utf8
            ),
            firesOn: .create
        )
        index.apply(
            .init(user: user, scope: .private, id: "s", subscription: Subscription(id: "s", kind: .query(query))),
            schema: Self.schema
        )
        var grown = Self.schema
        grown.version = 2
        grown.types["Note"]?.fields["late"] = .init(.scalar(.int64))
        var draw = Draw(state: 1)
        var made = record(&draw)
        made.type = "Note"
        made.fields = FieldsJSON.encode([.init(name: "late", value: .int64(1))])
        let change = CommittedRecord(zone: ZoneID("A", owner: user), before: nil, after: made, device: "d")
        #expect(try index.matches(change, schema: Self.schema).isEmpty)
        #expect(try index.matches(change, schema: grown).count == 1)
    }

    @Test func usersWithoutReadAccessGetNoMatches() throws {
        var schema = Self.schema
        schema.types["Note"]?.grants = [.creator: .read]
        var index = SubscriptionIndex()
        for user in Self.users {
            let query = SubscribedQuery(
                recordType: "Note",
                json: Array(#"{"recordType":"Note"}"#.utf8),
                firesOn: .create
            )
            index.apply(
                .init(user: user, scope: .public, id: "s", subscription: Subscription(id: "s", kind: .query(query))),
                schema: schema
            )
        }
        var draw = Draw(state: 5)
        var made = record(&draw)
        made.type = "Note"
        let zone = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)
        let found = try index.matches(.init(zone: zone, before: nil, after: made, device: "d"), schema: schema)
        #expect(found.map(\.user) == [made.created.by])
    }
}
