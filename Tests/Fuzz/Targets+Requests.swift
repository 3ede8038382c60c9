import HTTPTypes
import Records
import RelayAPI
import Wire

/// Whole requests, from their bytes to their answers.
extension FuzzTarget {
    static let requests: [FuzzTarget] = [bodies, heads]

    /// The path of an operation on the first line, then its body.
    private static let bodies = FuzzTarget(
        "bodies",
        seeds: [
            "private/records/modify\n"
                + #"{"zoneID":{"zoneName":"Notes"},"atomic":true,"operations":[{"operationType":"update","record":{"recordName":"r1","recordType":"Note","recordChangeTag":"1","fields":{"title":{"value":"x","type":"STRING"},"n":{"value":7}},"parent":{"recordName":"r2"}},"desiredKeys":["title"]}]}"#,
            "private/records/modify\n"
                + #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","publicPermission":"READ_ONLY","participants":[{"type":"USER","permission":"READ_WRITE","acceptanceStatus":"INVITED","userIdentity":{"lookupInfo":{"emailAddress":"b@example.org"}}}],"fields":{}}}]}"#,
            "private/records/lookup\n"
                + #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"r1"}],"desiredKeys":["title"],"numbersAsStrings":true}"#,
            "public/records/query\n"
                + #"{"resultsLimit":2,"query":{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"GREATER_THAN","fieldValue":{"value":1}}],"sortBy":[{"fieldName":"title","ascending":false}]}}"#,
            "private/changes/zone\n"
                + #"{"zones":[{"zoneID":{"zoneName":"Notes"},"resultsLimit":2,"syncToken":"AAAA","reverse":false,"desiredKeys":["n"],"desiredRecordTypes":["Note"]}]}"#,
            "private/changes/database\n" + #"{"syncToken":"AAAA","resultsLimit":3}"#,
            "private/zones/modify\n"
                + #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"New","ownerRecordName":"_u"}}}]}"#,
            "private/zones/lookup\n" + #"{"zones":[{"zoneName":"Notes"}]}"#,
            "private/subscriptions/modify\n"
                + #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"query","query":{"recordType":"Note","filterBy":[]},"firesOn":["create"],"firesOnce":true,"zoneID":{"zoneName":"Notes"},"notificationInfo":{"alertBody":"b","shouldBadge":true,"alertLocalizationArgs":["title"]}}}]}"#,
            "private/records/move\n"
                + #"{"zoneID":{"zoneName":"Notes"},"destinationZoneID":{"zoneName":"Box"},"records":[{"recordName":"r1","recordChangeTag":"1"}],"createDestination":true}"#,
            "public/users/discover\n"
                + #"{"lookupInfos":[{"emailAddress":"b@example.org"},{"phoneNumber":"+1"},{"userRecordName":"_x"}]}"#,
            "public/records/resolve\n"
                + #"{"shortGUIDs":[{"value":"abc","shouldFetchRootRecord":true,"rootRecordDesiredKeys":["title"]}]}"#,
            "private/assets/upload\n"
                + #"{"zoneID":{"zoneName":"Notes"},"tokens":[{"recordType":"Note","fieldName":"file","recordName":"r1"}]}"#,
            "private/assets/rereference\n" + #"{"zoneID":{"zoneName":"Notes"},"tokens":[]}"#,
        ],
        words: [
            #""operationType":"forceReplace""#, #""operationType":"delete""#, #""type":"REFERENCE""#, "forceDelete",
            #""value":{"recordName":"r1","action":"DELETE_SELF"}"#, #""type":"LOCATION""#, #""type":"STRING_LIST""#,
            #""zoneName":"_defaultZone""#, #""recordName":"r2""#, "private", "public", "shared", "records", "zones",
            #""continuationMarker":"e30=""#, #""syncToken":"""#, #""resultsLimit":0"#, #""zoneWide":true"#,
        ]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let line = input.prefix { $0 != UInt8(ascii: "\n") }
            let answer = await relay.ask(String(decoding: line, as: UTF8.self), Array(input.dropFirst(line.count + 1)))
            var finding = FuzzRelay.finding(answer)
            let operation = String(decoding: line, as: UTF8.self)
            let isKnown = operation.utf8.allSatisfy { $0 == UInt8(ascii: "/") || (0x61...0x7A).contains($0) }
            finding.outcome = (isKnown && answer.status == .ok ? operation : "odd") + " " + finding.outcome
            return finding
        }
    }

    /// Paths, query strings and headers, with a small body.
    private static let heads = FuzzTarget(
        "heads",
        seeds: [
            "POST\n/database/1/iCloud.org.example.fuzz/development/private/zones/list\nckAPIToken=x&ckWebAuthToken=dev-alice",
            "GET\n/database/1/iCloud.org.example.fuzz/development/public/users/caller\nckAPIToken=x&ckWebAuthToken=AAECAwQ%3D",
            "GET\n/share/abcdef#title\n",
            "GET\n/signin\ncontainer=iCloud.org.example.fuzz&environment=development&token=x",
            "POST\n/device/1/iCloud.org.example.fuzz/development/tokens/create\nckAPIToken=x",
            "GET\n/assets/download/AAAA/BBBB\n", "POST\n/assets/upload/AAAA\n", "GET\n/openapi.json\n",
            "GET\n/account\n",
            "OPTIONS\n/database/1/iCloud.org.example.fuzz/production/shared/records/query\n",
        ],
        words: [
            "/database/1/", "development", "%2e%2e", "%00", "%ff", "..", "//", "?", "&", "=", "ckWebAuthToken=", "+",
        ]
    ) {
        let relay = try await FuzzRelay()
        return { input in
            let lines = String(decoding: input, as: UTF8.self).split(
                separator: "\n",
                maxSplits: 2,
                omittingEmptySubsequences: false
            )
            guard lines.count == 3, let method = HTTPRequest.Method(String(lines[0])) else { return Finding("no head") }
            let request = APIRequest(
                method: method,
                path: String(lines[1]),
                query: lines[2].isEmpty ? nil : String(lines[2]),
                headers: [
                    .origin: "https://example.org",
                    .range: String(lines[2].prefix(40).filter { $0.isASCII && $0 >= " " }),
                ],
                body: Array("{}".utf8)
            )
            return FuzzRelay.finding(await relay.send(request))
        }
    }
}
