import Records
import Testing
import Wire

/// How a client decodes responses of relays, ours and others.
@Suite struct ClientResponseTests {
    func json(_ text: String) throws -> JSONValue { try JSONDocument(parsing: Array(text.utf8)).root }

    func entries(_ text: String, zone: ZoneID? = nil) throws -> [ClientResponse.RecordEntry] {
        var entries: [ClientResponse.RecordEntry] = []
        try ClientResponse.records(json(text), zone: zone) { entries.append($0) }
        return entries
    }

    @Test func recordsTombstonesAndErrorsAreDistinguished() throws {
        let found = try entries(
            """
            {"records":[
             {"recordName":"a","recordType":"Note","recordChangeTag":"t","future":{"x":[1]},
              "fields":{"title":{"value":"T","type":"STRING"},"n":{"value":96,"type":"DOUBLE"},
                        "odd":{"value":{"what":1},"type":"HOLOGRAM"},"none":{"value":null,"type":"STRING"},
                        "secret":{"value":"s","type":"STRING","isEncrypted":true},
                        "empty":{"value":[],"type":"UNKNOWN_LIST"}},
              "created":{"timestamp":1,"userRecordName":"_a","deviceID":"d"},
              "parent":{"recordName":"p"},"share":{"recordName":"s"},
              "zoneID":{"zoneName":"Notes","ownerRecordName":"_a"}},
             {"recordName":"b","deleted":true},
             {"recordName":"c","serverErrorCode":"CONFLICT","reason":"R","retryAfter":"1.5","uuid":"u",
              "serverRecord":{"recordName":"c","recordType":"Note","fields":{}}},
             {"recordName":"d","serverErrorCode":"SOMETHING_NEW"}]}
            """
        )
        #expect(found.count == 4)
        guard case .record(let record) = found[0], case .deleted("b", nil, nil) = found[1],
            case .failed("c", let conflict) = found[2], case .failed("d", let unknown) = found[3]
        else {
            Issue.record("\(found)")
            return
        }
        #expect(record.id == RecordID("a", in: ZoneID("Notes", owner: UserID("_a"))))
        #expect(
            record.fields == [
                "title": .string("T"), "n": .double(96), "secret": .string("s"), "empty": .list(.string, []),
            ]
        )
        #expect(record.encryptedFields == ["secret"])
        #expect(record.parent == "p")
        #expect(record.share == "s")
        #expect(record.created?.at == Timestamp(milliseconds: 1))
        #expect(record.modified == nil)
        #expect(conflict.error == RelayError(.conflict, "R", retryAfter: .milliseconds(1500)))
        #expect(conflict.uuid == "u")
        #expect(conflict.serverRecord?.type == "Note")
        #expect(unknown.error.code == .internalError)
        #expect(unknown.error.reason == "SOMETHING_NEW")
    }

    static let broken = [
        #"{"records":5}"#, #"{"records":[5]}"#, #"{"records":[{"recordName":"a"}]}"#,
        #"{"records":[{"recordName":"a","recordType":"N","fields":{"n":{"value":"x","type":"INT64"}}}]}"#,
        #"{"records":[{"recordName":"a","recordType":"N","created":{"timestamp":"soon"}}]}"#,
        #"{"records":[{"deleted":true}]}"#,
    ]

    @Test(arguments: broken) func malformedResponsesAreRefused(_ text: String) {
        #expect(throws: JSONError.self) { try entries(text) }
    }

    @Test func zonesOfAllKindsAreDecoded() throws {
        let zones = try ClientResponse.zones(
            json(
                """
                {"zones":[
                 {"zoneID":{"zoneName":"A","ownerRecordName":"_a"},"syncToken":"AQ==","atomic":true},
                 {"zoneID":{"zoneName":"B"},"deleted":true},
                 {"zoneID":{"zoneName":"C"},"serverErrorCode":"BAD_REQUEST","reason":"R",
                  "ckErrorCode":"CHANGE_TOKEN_EXPIRED"}]}
                """
            )
        )
        #expect(zones.count == 3)
        guard case .zone(let zone) = zones[0], case .failed(let failed?, let failure) = zones[2] else {
            Issue.record("\(zones)")
            return
        }
        #expect(zone.id == ZoneID("A", owner: UserID("_a")))
        #expect(zone.syncToken == "AQ==")
        #expect(zone.isAtomic)
        #expect(zones[1] == .deleted(ZoneID("B"), .deleted))
        #expect(failed == ZoneID("C"))
        #expect(failure.error.fineCode == .changeTokenExpired)
    }

    @Test func pagesMustHaveAToken() throws {
        let end = try ClientResponse.pageEnd(json(#"{"syncToken":"AQ=="}"#))
        #expect(end.syncToken == "AQ==")
        #expect(!end.moreComing)
        #expect(throws: JSONError.self) { try ClientResponse.pageEnd(json(#"{"moreComing":true}"#)) }
    }

    @Test func subscriptionsOfUnknownKindsAreSkipped() throws {
        let found = try ClientResponse.subscriptions(
            json(
                """
                {"subscriptions":[{"subscriptionID":"q","subscriptionType":"later"},
                {"subscriptionID":"d","subscriptionType":"database","notificationInfo":{"soundName":"x"}},
                {"subscriptionID":"z","subscriptionType":"zone","recordType":"Note"},{"subscriptionID":"gone","deleted":true},
                {"subscriptionID":"e","serverErrorCode":"NOT_FOUND","reason":"R"}]}
                """
            )
        )
        #expect(found.count == 4)
        #expect(
            found[0]
                == .subscription(
                    Subscription(id: "d", kind: .database, notificationInfo: Array(#"{"soundName":"x"}"#.utf8))
                )
        )
        #expect(found[1] == .subscription(Subscription(id: "z", kind: .zone(nil), recordType: "Note")))
        #expect(found[2] == .deleted("gone"))
    }
}
