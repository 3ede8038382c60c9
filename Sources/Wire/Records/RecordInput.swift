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

    package init(_ json: JSONValue) throws(JSONError) {
        guard json.isObject else { throw json.mismatch("an object") }
        recordName = try json["recordName"]?.string()
        recordType = try json["recordType"]?.string()
        changeTag = try json["recordChangeTag"]?.string()
        zone = nil
        if let id = json["zoneID"] { zone = try ZoneIDCodec.read(id) }
        fields = []
        if let object = json["fields"] {
            for (name, value) in try object.members() { fields.append(try FieldInput(name: name, value)) }
        }
        parent = try Self.parent(json)
        if recordType == Share.misspeltRecordType { recordType = Share.recordType }
        if recordType == nil || recordType == Share.recordType { share = try ShareInput(json) }
        createsShortGUID = try json["createShortGUID"]?.bool() ?? false
        desiredKeys = try json["desiredKeys"].map(stringArray)
    }

    private static func parent(_ json: JSONValue) throws(JSONError) -> String?? {
        if let parent = json["parent"] { return .some(try parent.required("recordName").string()) }
        return json.hasMember("parent") ? .some(nil) : nil
    }
}

/// One field as a client sends it: its value still JSON, so that the schema can say how to read it.
package struct FieldInput: Sendable {
    package var name: String
    /// `nil` clears the field.
    package var value: JSONValue?
    package var tag: FieldType?
    package var isEncrypted: Bool

    /// Reads `{"value":…,"type":…}`; a null field and an object without value clear.
    package init(name: String, _ json: JSONValue) throws(JSONError) {
        self.name = name
        tag = nil
        isEncrypted = false
        guard !json.isNull else { return }
        guard json.isObject else { throw json.mismatch("an object with a value") }
        value = json["value"]
        isEncrypted = try json["isEncrypted"]?.bool() ?? false
        guard let word = try json["type"]?.string() else { return }
        // Tags that live answers gave for lists of nothing in particular say nothing.
        guard word != "UNKNOWN_LIST", word != "LIST" else { return }
        guard let type = FieldType(tag: word) else {
            throw try json.required("type").mismatch("a field type of CloudKit")
        }
        tag = type
    }
}

/// An array of strings.
package func stringArray(_ json: JSONValue) throws(JSONError) -> [String] {
    var result: [String] = []
    for element in try json.elements() { result.append(try element.string()) }
    return result
}
