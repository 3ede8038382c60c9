package import Records

/// A record as sent by a client, not yet checked against the schema.
///
/// See Wire.md, "Records".
package struct RecordInput: Sendable {
    package var recordName: String?
    package var recordType: String?
    package var changeTag: String?
    /// The fields, as positions in `document`.
    package var fields: [FieldInput]
    private let document: JSONDocument
    package var zone: ZoneID?
    /// `.some(nil)` clears the parent; `nil` leaves it unchanged.
    package var parent: String??
    /// The parent's zone, if the client names it.
    package var parentZone: ZoneID?
    package var createsShortGUID: Bool
    package var desiredKeys: [String]?
    /// For a share record, or a record whose type the client omits.
    package var share: ShareInput?
    /// The reason why part of the record is invalid; only this record of the request is then rejected.
    package var fault: String?

    package init(_ json: JSONValue) throws(JSONError) {
        fields = []
        createsShortGUID = false
        guard json.isObject else { throw json.mismatch("an object") }
        // A single pass, because this runs for every record, and most records have few of these members.
        let document = json.document
        self.document = document
        var name = json.index + 1
        let end = document.end(of: json.index)
        while name < end {
            let value = name + 1
            defer { name = document.end(of: value) }
            if document.tape[value].kind == .null {
                if document.isText("parent", at: name) { parent = .some(nil) }
            } else if document.isText("recordName", at: name) {
                recordName = try document.string(at: value)
            } else if document.isText("recordType", at: name) {
                recordType = try document.string(at: value)
            } else {
                do throws(JSONError) {
                    if document.isText("fields", at: name) {
                        try readFields(at: value)
                    } else {
                        try readRareMember(JSONValue(document: document, index: name), document.value(at: value))
                    }
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

    private mutating func readFields(at object: Int) throws(JSONError) {
        guard document.tape[object].kind == .object else { throw document.value(at: object).mismatch("an object") }
        fields.reserveCapacity(document.memberCapacity(of: object))
        var name = object + 1
        let end = document.end(of: object)
        while name < end {
            fields.append(try FieldInput(at: name, in: document))
            name = document.end(of: name + 1)
        }
    }

    private mutating func readRareMember(_ name: JSONValue, _ value: JSONValue) throws(JSONError) {
        if name.isText("recordChangeTag") {
            changeTag = try value.string()
        } else if name.isText("zoneID") {
            zone = try ZoneIDCodec.read(value)
        } else if name.isText("parent") {
            parent = .some(try value.required("recordName").string())
            parentZone = try value["zoneID"].map(ZoneIDCodec.read)
        } else if name.isText("createShortGUID") {
            createsShortGUID = try value.bool()
        } else if name.isText("desiredKeys") {
            desiredKeys = try stringArray(value)
        }
    }
}

extension RecordInput {
    package func name(of field: FieldInput) -> String { document.value(at: field.name).text }

    /// Returns `nil` if the field is cleared.
    package func value(of field: FieldInput) -> JSONValue? { field.value.map { document.value(at: $0) } }

    /// Returns whether the field's value is an empty list, which does not tell the field's type.
    package func isEmptyList(_ field: FieldInput) -> Bool {
        guard let value = field.value else { return false }
        return document.tape[value].kind == .array && document.end(of: value) == value + 1
    }

    package func exactSeconds(of field: FieldInput) -> JSONValue? {
        field.exactSeconds.map { document.value(at: $0) }
    }

    /// Returns the field's value, which must not be null.
    package func required(_ field: FieldInput) throws(JSONError) -> JSONValue {
        guard let value = value(of: field) else { throw document.value(at: field.name).mismatch("a value") }
        return value
    }

    /// Returns the form and position of a value whose text is already in the stored format.
    func plainValue(of field: FieldInput, _ type: FieldType) -> (form: PlainForm, place: Range<Int>)? {
        guard let value = field.value, !field.hasExactSeconds, let form = PlainForm(document, value, type) else {
            return nil
        }
        let node = document.tape[value]
        let quote = form == .string ? 1 : 0
        return (form, Int(node.start) - quote..<Int(node.end) + quote)
    }

    func withText(_ place: Range<Int>, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        document.bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[place])) }
    }

    /// Passes the bytes of a field's name to `body`; returns `nil` if the name contains escapes.
    package func withName(of field: FieldInput, _ body: (UnsafeBufferPointer<UInt8>) -> Int?) -> Int? {
        guard document.tape[field.name].kind == .string else { return nil }
        return document.withText(at: field.name, body)
    }
}

/// A field as sent by a client: the positions of its parts, because the schema decides how to decode its value.
///
/// Contains only indexes, so that a record's many fields do not each retain the document.
package struct FieldInput: Sendable {
    package let tag: FieldType?
    package let isEncrypted: Bool
    /// Whether the tag says that the value is a list, but not of which type.
    package let isUntypedList: Bool
    /// Whether the field has no value and is therefore cleared.
    package var clears: Bool { value == nil }
    package var hasExactSeconds: Bool { exactSeconds != nil }
    fileprivate let name: Int
    fileprivate let value: Int?
    fileprivate let exactSeconds: Int?

    /// Reads `"name":{"value":…,"type":…}` at the tape index `name`.
    ///
    /// A null field and an object without a value clear the field.
    fileprivate init(at name: Int, in document: JSONDocument) throws(JSONError) {
        var tag: FieldType?
        var isEncrypted = false
        var value: Int?
        var exactSeconds: Int?
        var saysList = false
        let object = document.tape[name + 1]
        if object.kind != .null {
            guard object.kind == .object else { throw document.value(at: name + 1).mismatch("an object with a value") }
            var name = name + 2
            while name < Int(object.next) {
                let member = name + 1
                let node = document.tape[member]
                defer { name = Int(node.next) }
                guard node.kind != .null else { continue }
                if document.isText("value", at: name) {
                    value = member
                } else if document.isText("type", at: name) {
                    tag = try Self.type(at: member, in: document, &isEncrypted)
                    saysList = tag == nil
                } else if document.isText("isEncrypted", at: name) {
                    isEncrypted = try document.value(at: member).bool()
                } else if document.isText(FieldCodec.exactSeconds, at: name) {
                    exactSeconds = member
                }
            }
        }
        if saysList, let value, document.tape[value].kind != .array {
            throw document.value(at: value).mismatch("a list, as its type says")
        }
        self.tag = tag
        self.isEncrypted = isEncrypted
        isUntypedList = saysList
        self.name = name
        self.value = value
        self.exactSeconds = exactSeconds
    }

    /// Returns the tag's type; `nil` for tags that CloudKit's responses use for empty lists.
    ///
    /// `ENCRYPTED_BYTES` and similar tags set `isEncrypted`.
    private static func type(
        at index: Int,
        in document: JSONDocument,
        _ isEncrypted: inout Bool
    ) throws(JSONError) -> FieldType? {
        if document.isText("STRING", at: index) { return .scalar(.string) }
        if document.isText("INT64", at: index) { return .scalar(.int64) }
        let json = document.value(at: index)
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

/// Decodes an array of strings.
package func stringArray(_ json: JSONValue) throws(JSONError) -> [String] {
    var result: [String] = []
    for element in try json.elements() { result.append(try element.string()) }
    return result
}
