import Records
import RelayCore
import Testing
import Wire

/// What writes name before they run: their owners, and what they read first.
@Suite struct PrefetchTests {
    private let alice = UserID("_00000000000000000000000000000001")
    private let bob = UserID("_00000000000000000000000000000002")
    private let carol = UserID("_00000000000000000000000000000003")

    private func database(_ scope: DatabaseScope) -> DatabaseAddress {
        DatabaseAddress(scope: scope, caller: Caller(.user(alice), deviceID: "phone"))
    }

    @Test func savingRecordsReadsTheirZoneTheirNamesAndTheKey() throws {
        let zone = ZoneID("Notes", owner: bob)
        let input = #"{"recordName":"n","recordType":"Note","fields":{}}"#
        let record = try RecordInput(JSONDocument(parsing: Array(input.utf8)).root)
        let request = ModifyRecords(
            ["a", "b"].map { ModifyRecords.Operation(.forceUpdate, record, name: $0) },
            in: zone,
            of: database(.shared),
            atomically: true,
            schema: Schema(),
            rules: SchemaRules(mayGrow: false, scope: .shared, limits: Limits()),
            now: Timestamp(milliseconds: 1),
            newName: { "unused" }
        )
        #expect(request.prefetch == Prefetch([zone: ["a", "b"]]))
        let key = IdempotencyKey(user: alice, id: "k", fingerprint: 1)
        let repeatable = request.withIdempotencyKey(key)
        #expect(repeatable.prefetch == Prefetch([zone: ["a", "b"]], idempotencyKey: key))
    }

    @Test func movingRecordsReadsThemInBothZones() {
        let (source, destination) = (ZoneID("A", owner: alice), ZoneID("B", owner: alice))
        let request = MoveRecords(
            [.init(name: "a", changeTag: nil)],
            from: source,
            to: destination,
            of: database(.private),
            makesDestination: false,
            deletesSource: false,
            limits: Limits(),
            now: Timestamp(milliseconds: 1)
        )
        #expect(request.prefetch == Prefetch([source: ["a"], destination: ["a"]]))
    }

    @Test func ownZonesAreOneWriteAndZonesOfOthersOneForEachOwner() {
        func request(_ operations: [ModifyZones.Operation], _ scope: DatabaseScope) -> ModifyZones {
            ModifyZones(operations, of: database(scope), limits: Limits(), now: Timestamp(milliseconds: 1))
        }
        let own = request([.create(ZoneID("A")), .delete(ZoneID("B"))], .private)
        #expect(own.parts.map(\.owner) == [alice] && own.parts.map(\.places) == [[0, 1]])
        #expect(
            own.parts.map(own.prefetch)
                == [Prefetch([ZoneID("A", owner: alice): [], ZoneID("B", owner: alice): []])]
        )
        let zones = [ZoneID("A", owner: bob), ZoneID("B", owner: carol), ZoneID("C", owner: bob)]
        let others = request(zones.map { .leave($0) }, .shared)
        #expect(others.parts.map(\.owner) == [bob, carol] && others.parts.map(\.places) == [[0, 2], [1]])
        #expect(
            others.parts.map(others.prefetch) == [Prefetch([zones[0]: [], zones[2]: []]), Prefetch([zones[1]: []])]
        )
    }

    @Test func subscriptionsAreReadInTheirDatabase() {
        let request = ModifySubscriptions([.delete(id: "a")], of: database(.shared), limits: Limits())
        #expect(request.prefetch == Prefetch(subscriptions: .shared))
    }

    @Test func eachStepOfAFirstUseNamesItsOwner() {
        let provision = ProvisionUser(alice, now: Timestamp(milliseconds: 1))
        let steps: [ProvisionUser.Step] = [.defaultZone, .userRecord, .invitations(from: bob)]
        #expect(steps.map(provision.owner) == [alice, Zone.publicOwner, bob])
        #expect(
            steps.map(provision.prefetch)
                == [
                    Prefetch([ZoneID(ZoneID.defaultName, owner: alice): []]),
                    Prefetch([ZoneID(ZoneID.defaultName, owner: Zone.publicOwner): [alice.recordName]]), Prefetch(),
                ]
        )
    }
}
