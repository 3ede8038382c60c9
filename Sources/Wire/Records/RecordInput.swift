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
        let document = json.document
        for name in try json.names() {
            let value = JSONValue(document: document, index: name + 1)
            if value.isNull {
                if document.isText("parent", at: name) { parent = .some(nil) }
            } else if document.isText("recordName", at: name) {
                recordName = try value.string()
            } else if document.isText("recordType", at: name) {
                recordType = try value.string()
            } else if document.isText("fields", at: name) {
                do throws(JSONError) {
                    fields.reserveCapacity(value.memberCapacity)
                    for name in try value.names() { fields.append(try FieldInput(at: name, in: document)) }
                } catch {
                    fault = fault ?? error.description
                }
            } else {
                do throws(JSONError) {
                    try readRarer(JSONValue(document: document, index: name), value)
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
    package let name: String
    package let tag: FieldType?
    package let isEncrypted: Bool
    /// The field's object; with the other two it is one reference to hold, where values of their own would be three.
    private let json: JSONValue
    private let valueIndex: Int?
    private let exactSecondsIndex: Int?

    /// `nil` clears the field.
    package var value: JSONValue? { valueIndex.map { JSONValue(document: json.document, index: $0) } }
    package var exactSeconds: JSONValue? { exactSecondsIndex.map { JSONValue(document: json.document, index: $0) } }

    /// Reads `"name":{"value":…,"type":…}`; a null field and an object without value clear.
    ///
    /// `name`: its tape index.
    init(at name: Int, in document: JSONDocument) throws(JSONError) {
        let json = JSONValue(document: document, index: name + 1)
        var tag: FieldType?
        var isEncrypted = false
        var value: Int?
        var exactSeconds: Int?
        if !json.isNull {
            guard json.isObject else { throw json.mismatch("an object with a value") }
            for name in try json.names() {
                let member = name + 1
                guard document.tape[member].kind != .null else { continue }
                if document.isText("value", at: name) {
                    value = member
                } else if document.isText("type", at: name) {
                    tag = try Self.type(JSONValue(document: document, index: member), &isEncrypted)
                } else if document.isText("isEncrypted", at: name) {
                    isEncrypted = try JSONValue(document: document, index: member).bool()
                } else if document.isText(FieldCodec.exactSeconds, at: name) {
                    exactSeconds = member
                }
            }
        }
        self.name = JSONValue(document: document, index: name).text
        self.tag = tag
        self.isEncrypted = isEncrypted
        self.json = json
        valueIndex = value
        exactSecondsIndex = exactSeconds
    }

    /// `nil` for tags that live answers gave for lists of nothing in particular: they say nothing.
    ///
    /// `ENCRYPTED_BYTES` says by its name what others say by `isEncrypted`.
    private static func type(_ json: JSONValue, _ isEncrypted: inout Bool) throws(JSONError) -> FieldType? {
        if json.isText("STRING") { return .scalar(.string) }
        if json.isText("INT64") { return .scalar(.int64) }
        var word = try json.string()
        guard word != "UNKNOWN_LIST", word != "LIST" else { return nil }
        if word.hasPrefix("ENCRYPTED_") {
            isEncrypted = true
            word.removeFirst("ENCRYPTED_".count)
        }
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
