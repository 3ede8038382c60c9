import Records
import RelayCore
import StoreTesting
import Testing

/// Random records, changes and queries: every query plan returns the result of a full scan.
@Suite struct RandomQueryTests {
    private static let words = [
        "milk", "Milk", "bread", "", "éclair", "e\u{301}clair", "zebra", "a", "ab", "abc", "新米",
    ]

    private func value(of field: String, _ dice: inout Dice) -> FieldValue {
        switch field {
        case "title": .string(dice.pick(Self.words))
        case "note", "words": .string((0..<3).map { _ in dice.pick(Self.words) }.joined(separator: ", "))
        case "count": .int64(Int64(dice.below(9)) - 4)
        case "ratio": .double(Double(dice.below(9)) / 4 - 1)
        case "due": .timestamp(Timestamp(milliseconds: Int64(dice.below(9))))
        case "blob": .bytes((0..<dice.below(3)).map { _ in UInt8(dice.below(3)) })
        case "owner": .reference(Reference(recordName: dice.pick(["r1", "r2", "r3"]), action: .none))
        case "spot": place(&dice)
        case "tags": .list(.string, (0..<dice.below(4)).map { _ in .string(dice.pick(Self.words)) })
        case "spots": .list(.location, (0..<dice.below(3)).map { _ in place(&dice) })
        default: .list(.int64, (0..<dice.below(4)).map { _ in .int64(Int64(dice.below(5))) })
        }
    }

    private func place(_ dice: inout Dice) -> FieldValue {
        .location(Location(latitude: Double(dice.below(19)) * 10 - 90, longitude: Double(dice.below(37)) * 10 - 180))
    }

    private func things(_ count: Int, _ dice: inout Dice) -> [(name: String, fields: [String: FieldValue]?)] {
        (0..<count).map { _ in
            let name = "t\(dice.below(60))"
            guard !dice.chance(10) else { return (name, nil) }
            var fields: [String: FieldValue] = [:]
            for field in QueryWorld.type.fields.keys.sorted() where dice.chance(80) {
                fields[field] = value(of: field, &dice)
            }
            return (name, fields)
        }
    }

    private func filter(_ dice: inout Dice) -> Query.Filter {
        while true {
            let comparator = dice.pick(Query.Comparator.allCases)
            if comparator.looksForTokens, dice.chance(40) {
                return .init(.anySearchable, comparator, [.string(dice.pick(["milk", "ECLAIR zebra", "米", "a ab"]))])
            }
            if dice.chance(15) {
                let field = dice.pick(Query.SystemField.allCases)
                guard comparator.valueType(for: field) != nil else { continue }
                let value: FieldValue =
                    switch field {
                    case .created, .modified: .timestamp(Timestamp(milliseconds: Int64(dice.below(60))))
                    case .recordName: .string("t\(dice.below(60))")
                    case .changeTag: .string(ChangeTag.text(of: UInt64(dice.below(120))))
                    case .createdBy, .modifiedBy: .string("_00000000000000000000000000000001")
                    }
                return .init(field, comparator, [value])
            }
            let field = dice.pick(QueryWorld.type.fields.keys.sorted())
            guard let type = QueryWorld.type.fields[field]?.type, comparator.valueType(for: type) != nil else {
                continue
            }
            let count = comparator.takesList ? 1 + dice.below(3) : 1
            var values = (0..<count).map { _ in value(of: field, &dice) }
            if case .list = type {
                values = values.map {
                    if case .list(_, let members) = $0, let one = members.first { one } else { one(of: field, &dice) }
                }
            }
            if comparator.looksForTokens { values = [.string(dice.pick(["milk", "Bread ab", "eclair"]))] }
            let distance = comparator == .near ? Double(dice.pick([0, 1_000, 2_000_000, 9_000_000, 30_000_000])) : nil
            return .init(.own(field), comparator, values, distance: distance)
        }
    }

    private func one(of field: String, _ dice: inout Dice) -> FieldValue {
        switch field {
        case "tags": .string("milk")
        case "spots": place(&dice)
        default: .int64(2)
        }
    }

    private func query(_ dice: inout Dice) -> Query {
        var query = Query(recordType: "Thing")
        query.filters = (0..<dice.below(4)).map { _ in filter(&dice) }
        for _ in 0..<dice.below(3) {
            if dice.chance(20), case .location(let center) = place(&dice) {
                query.sorts.append(.init(.own("spot"), ascending: dice.chance(70), relativeTo: center))
            } else if dice.chance(25) {
                query.sorts.append(.init(dice.pick(Query.SystemField.allCases), ascending: dice.chance(50)))
            } else {
                let field = dice.pick(["title", "count", "ratio", "due", "blob", "owner"])
                query.sorts.append(.init(.own(field), ascending: dice.chance(50)))
            }
        }
        return query
    }

    enum Plan: CaseIterable {
        case scans, indexes, indexesOfMany
    }

    @Test("every way to run a query returns the result of a full scan", arguments: Plan.allCases, [1, 2])
    func plans(_ plan: Plan, _ seed: Int) async throws {
        var dice = Dice(state: UInt64(seed))
        let place = TestStore.current.makeHome(.lasting)
        let tuning: QueryTuning =
            switch plan {
            case .scans: .scansOnly
            case .indexes: .indexesOnly
            case .indexesOfMany: .likeMany
            }
        let stores = place.stores(tuning: tuning)
        let world = QueryWorld(try stores.store(of: .test))
        for name in ["A", "B", "C"] { try await world.makeZone(name) }
        for _ in 0..<4 {
            for zone in world.zones where dice.chance(80) {
                let changes = Dictionary(things(20, &dice).map { ($0.name, $0.fields) }) { $1 }
                try await world.put(changes.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, in: zone)
            }
            for _ in 0..<16 {
                let query = query(&dice)
                let zones = dice.chance(50) ? world.zones : [dice.pick(world.zones)]
                let answer = try await world.answer(query, in: zones, limit: 1 + dice.below(9))
                let expectation = try world.expectation(query, in: zones)
                #expect(answer.names == expectation, "\(query) in \(zones)")
            }
        }
        stores.close()
        #expect(try place.upkeep.faults { _ in }.isEmpty)
    }
}
