package import Records

/// A record as a client sends it, before the schema has said what its fields are.
///
/// Wire reference 4.3.
package struct RecordInput: Sendable {
    package var recordName: String?
    package var recordType: String?
    package var changeTag: String?
    package var fields: [FieldInput]
    package var zone: ZoneID?
    /// `.some(nil)` clears the parent; `nil` leaves it as it is.
    package var parent: String??
    package var createsShortGUID: Bool
    package var desiredKeys: [String]?
    /// Of a share record, and of one whose type the client leaves out.
    package var share: ShareInput?
    /// Why some of it could not be read; such a record is refused, and the others of its request are not.
    package var fault: String?

    package init(_ json: JSONValue) throws(JSONError) {
        fields = []
        createsShortGUID = false
        // One pass: a record is read by the million, and most have few of these.
        try json.visitMembers { (name, value) throws(JSONError) in
            if value.isNull {
                if name.isText("parent") { parent = .some(nil) }
            } else if name.isText("recordName") {
                recordName = try value.string()
            } else if name.isText("recordType") {
                recordType = try value.string()
            } else if name.isText("fields") {
                do throws(JSONError) {
                    fields.reserveCapacity(value.memberCapacity)
                    try value.visitMembers { (name, value) throws(JSONError) in
                        fields.append(try FieldInput(name: name.text, value))
                    }
                } catch {
                    fault = fault ?? error.description
                }
            } else {
                do throws(JSONError) {
                    try readRarer(name, value)
                } catch {
                    fault = fault ?? error.description
                }
            }
        }
        if recordType == Share.misspeltRecordType { recordType = Share.recordType }
        if recordType == nil || recordType == Share.recordType {
            do throws(JSONError) {
                share = try ShareInput(json)
            } catch {
                fault = fault ?? error.description
            }
        }
    }

    private mutating func readRarer(_ name: JSONValue, _ value: JSONValue) throws(JSONError) {
        if name.isText("recordChangeTag") {
            changeTag = try value.string()
        } else if name.isText("zoneID") {
            zone = try ZoneIDCodec.read(value)
        } else if name.isText("parent") {
            parent = .some(try value.required("recordName").string())
        } else if name.isText("createShortGUID") {
            createsShortGUID = try value.bool()
        } else if name.isText("desiredKeys") {
            desiredKeys = try stringArray(value)
        }
    }
}

/// One field as a client sends it: its value still JSON, so that the schema can say how to read it.
package struct FieldInput: Sendable {
    package var name: String
    /// `nil` clears the field.
    package var value: JSONValue?
    package var tag: FieldType?
    package var isEncrypted: Bool
    package var exactSeconds: JSONValue?

    /// Reads `{"value":…,"type":…}`; a null field and an object without value clear.
    package init(name: String, _ json: JSONValue) throws(JSONError) {
        self.name = name
        tag = nil
        isEncrypted = false
        guard !json.isNull else { return }
        guard json.isObject else { throw json.mismatch("an object with a value") }
        try json.visitMembers { (name, member) throws(JSONError) in
            guard !member.isNull else { return }
            if name.isText("value") {
                value = member
            } else if name.isText("type") {
                tag = try Self.type(member)
            } else if name.isText("isEncrypted") {
                isEncrypted = try member.bool()
            } else if name.isText(FieldCodec.exactSeconds) {
                exactSeconds = member
            }
        }
    }

    /// `nil` for tags that live answers gave for lists of nothing in particular: they say nothing.
    private static func type(_ json: JSONValue) throws(JSONError) -> FieldType? {
        if json.isText("STRING") { return .scalar(.string) }
        if json.isText("INT64") { return .scalar(.int64) }
        let word = try json.string()
        guard word != "UNKNOWN_LIST", word != "LIST" else { return nil }
        guard let type = FieldType(tag: word) else { throw json.mismatch("a field type of CloudKit") }
        return type
    }
}

/// An array of strings.
package func stringArray(_ json: JSONValue) throws(JSONError) -> [String] {
    var result: [String] = []
    for element in try json.elements() { result.append(try element.string()) }
    return result
}
