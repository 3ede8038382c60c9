/// Records that fail individually.
extension ErrorTableTests {
    static let recordItems: [Row] = [
        Row(
            "a missing record looked up",
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"no"}]}"#,
            is: 200,
            "NOT_FOUND",
            "Record not found",
            in: "records"
        ),
        Row(
            "created twice",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordName":"a","recordType":"Note"}}"#),
            is: 200,
            "CONFLICT",
            in: "records"
        ),
        Row(
            "a stale tag",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"a","recordChangeTag":"zz"}}"#),
            is: 200,
            "CONFLICT",
            "client oplock error updating record",
            in: "records"
        ),
        Row(
            "a stale tag deleting",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"a","recordChangeTag":"zz"}}"#),
            is: 200,
            "CONFLICT",
            in: "records"
        ),
        Row(
            "no tag",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"a"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordChangeTag is required",
            in: "records"
        ),
        Row(
            "no tag deleting",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"a"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordChangeTag is required",
            in: "records"
        ),
        Row(
            "a missing record updated",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "a missing record replaced",
            "private/records/modify",
            write(#"{"operationType":"replace","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "a missing record deleted",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "no type",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordName":"x"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordType",
            in: "records"
        ),
        Row(
            "another zone's record",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","zoneID":{"zoneName":"Other"}}}"#),
            is: 200,
            "BAD_REQUEST",
            "zoneID",
            in: "records"
        ),
        Row(
            "a user's record made",
            "public/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Users","recordName":"_x"}}"#,
                zone: "_defaultZone"
            ),
            is: 200,
            "ACCESS_DENIED",
            in: "records"
        ),
        Row(
            "somebody else's public record",
            "public/records/modify",
            write(
                #"{"operationType":"forceUpdate","record":{"recordName":"theirs","recordType":"Note"}}"#,
                zone: "_defaultZone"
            ),
            as: "bob",
            is: 200,
            "ACCESS_DENIED",
            in: "records"
        ),
        Row(
            "an atomic failure",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordName":"new","recordType":"Note"}},{"operationType":"delete","record":{"recordName":"no"}}"#,
                atomic: true
            ),
            is: 400,
            "ATOMIC_ERROR",
            "Atomic failure: 1 of 2 operations failed"
        ),
    ]

    static let fieldItems: [Row] = [
        Row(
            "a fractional timestamp",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"when":{"value":1.5,"type":"TIMESTAMP"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "Invalid value, expected type TIMESTAMP.",
            in: "records"
        ),
        Row(
            "a wrong type",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":"x","type":"STRING"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "invalid attempt to set value type STRING",
            in: "records"
        ),
        Row(
            "a value that is not of its type",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":"x"}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "expected type INT64",
            in: "records"
        ),
        Row(
            "bytes that are no base64",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"b":{"value":"?","type":"BYTES"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "expected type BYTES",
            in: "records"
        ),
        Row(
            "a list of lists",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"ll":{"value":[[1]]}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "ll",
            in: "records"
        ),
        Row(
            "a mixed list",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"ml":{"value":["a",1]}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "ml",
            in: "records"
        ),
        Row(
            "half a location",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"at":{"value":{"latitude":1},"type":"LOCATION"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "at",
            in: "records"
        ),
        Row(
            "encrypted in a plain field",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":1,"type":"INT64","isEncrypted":true}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "Attempt to save encrypted data in non encrypted field type",
            in: "records"
        ),
        Row(
            "plain in an encrypted field",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"secret":{"value":"x"}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "invalid attempt to set value type ENCRYPTED_BYTES",
            in: "records"
        ),
        Row(
            "an encrypted reference",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"r2":{"value":{"recordName":"a"},"type":"REFERENCE","isEncrypted":true}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "references and assets cannot be encrypted",
            in: "records"
        ),
        Row(
            "a hexadecimal number",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"d2":{"value":"0x10","type":"DOUBLE"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            in: "records"
        ),
        Row(
            "encrypted in public",
            "public/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"s2":{"value":"x","type":"STRING","isEncrypted":true}}}}"#,
                zone: "_defaultZone"
            ),
            is: 200,
            "BAD_REQUEST",
            "encrypted fields are not supported in the public database",
            in: "records"
        ),
    ]
}
