package import Records

/// The JSON format of field values, which are decoded according to their expected type.
///
/// See Wire.md, "Field values", "References", "Assets" and "Locations".
package enum FieldCodec {
    // MARK: Encoding

    /// Writes `{"value":…,"type":…}`, the form of a field inside `fields`.
    package static func write(
        _ value: FieldValue,
        isEncrypted: Bool = false,
        numbersAsStrings: Bool = false,
        to writer: inout JSONWriter
    ) {
        writer.object { field in
            field.key("value")
            writeBare(value, numbersAsStrings: numbersAsStrings, to: &field)
            field.member("type", value.type.tag)
            if isEncrypted { field.member("isEncrypted", true) }
            writeExactSeconds(of: value, to: &field)
        }
    }

    /// Writes an empty list without an element type.
    static func writeUntypedList(isEncrypted: Bool = false, to writer: inout JSONWriter) {
        writer.object { field in
            field.key("value")
            field.array(EmptyCollection<FieldValue>()) { _, _ in }
            field.member("type", "UNKNOWN_LIST")
            if isEncrypted { field.member("isEncrypted", true) }
        }
    }

    /// An extension of CloudKit's wire format: a date's exact value, beside its value in milliseconds.
    ///
    /// For a list, an array of the same length, with null for dates that are whole milliseconds. CloudKit clients that
    /// use it get back exactly the date that they saved; others ignore it and get milliseconds.
    package static let exactSeconds: StaticString = "exactSeconds"

    /// Returns whether values of this type can have `exactSeconds`.
    package static func isRefined(_ type: FieldType) -> Bool {
        type == .scalar(.timestamp) || type == .list(.timestamp)
    }

    private static func writeExactSeconds(of value: FieldValue, to field: inout JSONWriter) {
        switch value {
        case .timestamp(let timestamp):
            guard let seconds = timestamp.exactSeconds else { return }
            field.key(exactSeconds)
            field.double(seconds)
        case .list(.timestamp, let moments):
            guard moments.contains(where: { $0.exactSeconds != nil }) else { return }
            field.key(exactSeconds)
            field.array(moments) { writer, timestamp in
                if let seconds = timestamp.exactSeconds { writer.double(seconds) } else { writer.null() }
            }
        default: break
        }
    }

    /// Returns the value with its exact seconds, which are ignored if they differ by more than a millisecond.
    package static func refine(_ value: consuming FieldValue, by exactSeconds: JSONValue?) -> FieldValue {
        guard let exactSeconds else { return value }
        switch value {
        case .timestamp(let timestamp): return .timestamp(refine(timestamp, by: exactSeconds))
        case .list(.timestamp, let moments):
            guard let seconds = try? exactSeconds.elements(), seconds.count == moments.count else { return value }
            let refined = zip(moments, seconds).map { timestamp, seconds -> FieldValue in
                if case .timestamp(let timestamp) = timestamp {
                    .timestamp(refine(timestamp, by: seconds))
                } else {
                    timestamp
                }
            }
            return .list(.timestamp, refined)
        default: return value
        }
    }

    private static func refine(_ timestamp: Timestamp, by exactSeconds: JSONValue) -> Timestamp {
        guard let seconds = try? exactSeconds.double(),
            abs((seconds + 978_307_200) * 1000 - Double(timestamp.milliseconds)) <= 1
        else { return timestamp }
        var timestamp = timestamp
        timestamp.exactSeconds = seconds
        return timestamp
    }

    /// Writes the value alone, as in lists and filters.
    package static func writeBare(_ value: FieldValue, numbersAsStrings: Bool = false, to writer: inout JSONWriter) {
        switch value {
        case .string(let text): writer.string(text)
        case .int64(let number):
            numbersAsStrings ? writer.string(String(number)) : writer.int(number)
        case .double(let number):
            numbersAsStrings ? writer.string(number.description) : writer.double(number)
        case .timestamp(let timestamp):
            numbersAsStrings ? writer.string(String(timestamp.milliseconds)) : writer.int(timestamp.milliseconds)
        case .bytes(let bytes): writer.base64(bytes)
        case .reference(let reference): write(reference, to: &writer)
        case .location(let location): write(location, to: &writer)
        case .asset(let asset): write(asset, to: &writer)
        case .list(_, let elements):
            writer.array(elements) { writeBare($1, numbersAsStrings: numbersAsStrings, to: &$0) }
        }
    }

    private static func write(_ reference: Reference, to writer: inout JSONWriter) {
        writer.object {
            $0.member("recordName", reference.recordName)
            $0.member("action", reference.action.rawValue)
            if let zone = reference.zone {
                $0.key("zoneID")
                ZoneIDCodec.write(zone, to: &$0)
            }
        }
    }

    private static func write(_ location: Location, to writer: inout JSONWriter) {
        writer.object {
            $0.key("latitude")
            $0.double(location.latitude)
            $0.key("longitude")
            $0.double(location.longitude)
            for (name, number) in location.optionalNumbers {
                guard let number else { continue }
                $0.key(name)
                $0.double(number)
            }
            if let timestamp = location.timestamp {
                $0.member("timestamp", timestamp.milliseconds)
                writeExactSeconds(of: .timestamp(timestamp), to: &$0)
            }
        }
    }

    private static func write(_ asset: Asset, to writer: inout JSONWriter) {
        writer.object {
            $0.member("fileChecksum", asset.fileChecksum)
            $0.member("size", asset.size)
            if let text = asset.receipt { $0.member("receipt", text) }
            if let text = asset.referenceChecksum { $0.member("referenceChecksum", text) }
            if let text = asset.wrappingKey { $0.member("wrappingKey", text) }
            if let text = asset.downloadURL { $0.member("downloadURL", text) }
        }
    }

    // MARK: Decoding

    /// Decodes `json` as a value of `type`; numbers may be strings.
    ///
    /// Throws `FieldProblem.notA` if it is not of that type.
    package static func read(_ json: JSONValue, as type: FieldType) throws(FieldProblem) -> FieldValue {
        switch type {
        case .scalar(let scalar): return try read(json, as: scalar)
        case .list(let scalar):
            guard let elements = try? json.elements() else { throw .notA(type) }
            var values: [FieldValue] = []
            values.reserveCapacity(elements.count)
            for element in elements { values.append(try read(element, as: scalar)) }
            return .list(scalar, values)
        }
    }

    private static func read(_ json: JSONValue, as scalar: FieldType.Scalar) throws(FieldProblem) -> FieldValue {
        let value: FieldValue? =
            switch scalar {
            case .string: (try? json.string()).map(FieldValue.string)
            case .int64: integer(json).map(FieldValue.int64)
            case .double: number(json).map(FieldValue.double)
            case .timestamp: json.isBool ? nil : integer(json).map { .timestamp(Timestamp(milliseconds: $0)) }
            case .bytes: (try? json.string()).flatMap { Base64.decode($0) }.map(FieldValue.bytes)
            case .reference: reference(json).map(FieldValue.reference)
            case .location: location(json).map(FieldValue.location)
            case .asset: asset(json).map(FieldValue.asset)
            }
        guard let value else { throw .notA(.scalar(scalar)) }
        return value
    }

    /// Returns the type of a value without a tag or a declaration, by its JSON form; `nil` if no field type matches.
    ///
    /// An empty list reads as a list of strings. It must not declare a field.
    package static func inferredType(of json: JSONValue) -> FieldType? {
        if let elements = try? json.elements() {
            guard let first = elements.first, case .scalar(let scalar)? = inferredType(of: first) else {
                return elements.isEmpty ? .list(.string) : nil
            }
            return .list(scalar)
        }
        if json.isString { return .scalar(.string) }
        if json.isInteger || json.isBool { return .scalar(.int64) }
        if json.isNumber { return .scalar(.double) }
        if json["recordName"] != nil { return .scalar(.reference) }
        if json["latitude"] != nil { return .scalar(.location) }
        if json["fileChecksum"] != nil { return .scalar(.asset) }
        return nil
    }

    private static func integer(_ json: JSONValue) -> Int64? {
        if let number = try? json.int64() { return number }
        if let flag = try? json.bool() { return flag ? 1 : 0 }
        return (try? json.string()).flatMap { Int64($0) }
    }

    private static func number(_ json: JSONValue) -> Double? {
        if let number = try? json.double() { return number }
        if let flag = try? json.bool() { return flag ? 1 : 0 }
        // `Double` also accepts hexadecimal numbers, which are not allowed here.
        guard let text = try? json.string(), !text.utf8.contains(where: { $0 | 0x20 == UInt8(ascii: "x") }),
            let number = Double(text), number.isFinite
        else { return nil }
        return number
    }

    private static func reference(_ json: JSONValue) -> Reference? {
        guard let name = try? json["recordName"]?.string() else { return nil }
        var reference = Reference(recordName: name)
        if let action = json["action"] {
            guard let word = try? action.string(), let action = Reference.Action(rawValue: word) else { return nil }
            reference.action = action
        }
        if let zone = json["zoneID"] {
            guard let zone = try? ZoneIDCodec.read(zone) else { return nil }
            reference.zone = zone
        }
        return reference
    }

    private static func location(_ json: JSONValue) -> Location? {
        guard let latitude = try? json["latitude"]?.double(), let longitude = try? json["longitude"]?.double() else {
            return nil
        }
        var location = Location(latitude: latitude, longitude: longitude)
        do {
            location.horizontalAccuracy = try json["horizontalAccuracy"]?.double()
            location.verticalAccuracy = try json["verticalAccuracy"]?.double()
            location.altitude = try json["altitude"]?.double()
            location.speed = try json["speed"]?.double()
            location.course = try json["course"]?.double()
            location.timestamp = try (json["timestamp"]?.int64()).map { milliseconds in
                let timestamp = Timestamp(milliseconds: milliseconds)
                return json[exactSeconds].map { refine(timestamp, by: $0) } ?? timestamp
            }
        } catch {
            return nil
        }
        return location
    }

    private static func asset(_ json: JSONValue) -> Asset? {
        guard let checksum = try? json["fileChecksum"]?.string(), let size = try? json["size"]?.int64(), size >= 0
        else {
            return nil
        }
        var asset = Asset(fileChecksum: checksum, size: size)
        asset.receipt = try? json["receipt"]?.string()
        asset.referenceChecksum = try? json["referenceChecksum"]?.string()
        asset.wrappingKey = try? json["wrappingKey"]?.string()
        asset.downloadURL = try? json["downloadURL"]?.string()
        return asset
    }
}

extension FieldValue {
    fileprivate var exactSeconds: Double? {
        if case .timestamp(let timestamp) = self { timestamp.exactSeconds } else { nil }
    }
}

extension Location {
    fileprivate var optionalNumbers: [(StaticString, Double?)] {
        [
            ("horizontalAccuracy", horizontalAccuracy), ("verticalAccuracy", verticalAccuracy), ("altitude", altitude),
            ("speed", speed), ("course", course),
        ]
    }
}

/// The reason why a field's value was rejected; the caller adds the field's name.
package enum FieldProblem: Error, Hashable, Sendable {
    case notA(FieldType)
}

/// The JSON format of zone IDs.
///
/// See Wire.md, "Zone IDs".
package enum ZoneIDCodec {
    /// Writes all three members; the type follows from the name.
    package static func write(_ zone: ZoneID, to writer: inout JSONWriter) {
        writer.object {
            $0.member("zoneName", zone.zoneName)
            $0.member("ownerRecordName", zone.owner.recordName)
            $0.member("zoneType", zone.isDefault ? "DEFAULT_ZONE" : "REGULAR_CUSTOM_ZONE")
        }
    }

    /// Reads a zone ID; the owner may also be called `ownerName`.
    ///
    /// An absent or empty owner means the caller: some clients send empty strings instead of omitting members.
    package static func read(_ json: JSONValue) throws(JSONError) -> ZoneID {
        let name = try json.required("zoneName").string()
        guard let owner = try (json["ownerRecordName"] ?? json["ownerName"])?.string(), !owner.isEmpty else {
            return ZoneID(name)
        }
        return ZoneID(name, owner: UserID(owner))
    }
}
