package import Records

/// A record's `fields` object in its wire format, which is also the stored format.
///
/// A stored record is sent without decoding it. Only merges, `desiredKeys` and `numbersAsStrings` decode the object.
/// See Wire.md, "Field values".
package enum FieldsJSON {
    package static let empty = Array("{}".utf8)

    /// A field of a stored object.
    package struct Entry: Sendable {
        package var name: String
        package var value: FieldValue
        package var isEncrypted: Bool

        package init(name: String, value: FieldValue, isEncrypted: Bool = false) {
            self.name = name
            self.value = value
            self.isEncrypted = isEncrypted
        }
    }

    /// Encodes fields; `capacity` is the approximate size in bytes.
    package static func encode(_ entries: [Entry], reserving capacity: Int = 256) -> [UInt8] {
        var writer = JSONWriter(reserving: capacity)
        writer.open(UInt8(ascii: "{"))
        for entry in entries {
            writer.key(entry.name)
            FieldCodec.write(entry.value, isEncrypted: entry.isEncrypted, to: &writer)
        }
        writer.close(UInt8(ascii: "}"))
        return writer.bytes
    }

    /// Decodes a stored object.
    ///
    /// Throws only if the bytes were not written by `encode`, that is, if the store is corrupt.
    package static func decode(_ bytes: [UInt8]) throws(JSONError) -> [Entry] {
        var entries: [Entry] = []
        for (name, json) in try JSONDocument(parsing: bytes, limits: .response).root.members() {
            guard let type = FieldType(tag: try json.required("type").string()) else {
                throw json.mismatch("a field with a known type")
            }
            guard let value = try? FieldCodec.read(json.required("value"), as: type) else {
                throw json.mismatch("a field of its own type")
            }
            entries.append(
                Entry(
                    name: name,
                    value: refined(value, json),
                    isEncrypted: try json["isEncrypted"]?.bool() ?? false
                )
            )
        }
        return entries
    }

    /// Returns the size of a stored object as CloudKit measures it: names and contents, without the encoding.
    ///
    /// Returns `Int.max` if the bytes were not written by `encode`.
    package static func contentBytes(of bytes: [UInt8]) -> Int {
        guard let entries = try? decode(bytes) else { return .max }
        return entries.reduce(0) { $0 + $1.name.utf8.count + $1.value.contentBytes }
    }

    /// Returns the values of these fields; absent ones are left out.
    ///
    /// Throws only if the bytes were not written by `encode`, that is, if the store is corrupt.
    package static func values(
        of names: Set<String>,
        in bytes: [UInt8]
    ) throws(JSONError) -> [String: FieldValue] {
        var values: [String: FieldValue] = [:]
        guard let places = StoredFields.places(of: names, in: bytes) else {
            for (name, json) in try JSONDocument(parsing: bytes, limits: .response).root.members()
            where names.contains(name) {
                values[name] = try value(json)
            }
            return values
        }
        for (name, place) in places { values[name] = try value(at: place, in: bytes) }
        return values
    }

    /// Returns the value of one field; `nil` if it is absent.
    ///
    /// Reads no further than the field. Throws only if the bytes were not written by `encode`, that is, if the store is
    /// corrupt.
    package static func value(of name: String, in bytes: [UInt8]) throws(JSONError) -> FieldValue? {
        switch StoredFields.place(of: name, in: bytes) {
        case .at(let place): try value(at: place, in: bytes)
        case .nowhere: nil
        case .unknown: try values(of: [name], in: bytes)[name]
        }
    }

    private static func value(at place: Range<Int>, in bytes: [UInt8]) throws(JSONError) -> FieldValue {
        if let text = StoredFields.plainText(in: bytes[place]) { return text }
        return try value(JSONDocument(parsing: Array(bytes[place]), limits: .response).root)
    }

    private static func value(_ json: JSONValue) throws(JSONError) -> FieldValue {
        guard let type = FieldType(tag: try json.required("type").string()),
            let value = try? FieldCodec.read(json.required("value"), as: type)
        else { throw json.mismatch("a field of its own type") }
        return refined(value, json)
    }

    /// Only dates have a member beside their value, so no other type is searched for it.
    private static func refined(_ value: FieldValue, _ json: JSONValue) -> FieldValue {
        guard FieldCodec.isRefined(value.type) else { return value }
        return FieldCodec.refine(value, by: json[FieldCodec.exactSeconds])
    }

    /// Returns all assets in a stored object, including those in lists.
    ///
    /// Throws only if the bytes were not written by `encode`, that is, if the store is corrupt.
    package static func assets(in bytes: [UInt8]) throws(JSONError) -> [Asset] {
        try decode(bytes).flatMap(\.value.assets)
    }

    /// Returns `old` with the fields of `changed` replaced and those of `cleared` removed, in the order of `old`.
    ///
    /// Decodes only the positions of the fields in `old`.
    package static func merge(
        _ changed: EncodedFields,
        clearing cleared: Set<String>,
        into old: [UInt8]
    ) throws(JSONError) -> [UInt8] {
        let members = try JSONDocument(parsing: old, limits: .response).root.members()
        let parts = changed.parts
        var rest = Dictionary(parts.map { ($0.name, $0.place) }) { first, _ in first }
        var writer = JSONWriter(reserving: old.count + changed.bytes.count)
        writer.open(UInt8(ascii: "{"))
        for (name, json) in members where !cleared.contains(name) {
            writer.key(name)
            if let place = rest.removeValue(forKey: name) {
                writer.raw(changed.bytes[place])
            } else {
                writer.raw(json.rawBytes)
            }
        }
        for part in parts where rest[part.name] != nil {
            writer.key(part.name)
            writer.raw(changed.bytes[part.place])
        }
        writer.close(UInt8(ascii: "}"))
        return writer.bytes
    }

    /// The fields that a response contains, and their format.
    package struct Selection: Hashable, Sendable {
        /// The fields to return; `nil` returns all.
        package var desiredKeys: Set<String>?
        package var numbersAsStrings: Bool

        package init(desiredKeys: Set<String>? = nil, numbersAsStrings: Bool = false) {
            self.desiredKeys = desiredKeys
            self.numbersAsStrings = numbersAsStrings
        }

        package static let all = Selection()
    }

    /// Returns the selected fields, with the `downloadURL` that `link` returns for each asset.
    package static func select(
        _ selection: Selection,
        from bytes: [UInt8],
        linking link: (_ field: String, Asset) -> String?
    ) throws(JSONError) -> [UInt8] {
        let entries = try decode(bytes).filter { selection.desiredKeys?.contains($0.name) ?? true }
        var writer = JSONWriter(reserving: bytes.count + 512)
        writer.object { object in
            for entry in entries {
                object.key(entry.name)
                FieldCodec.write(
                    entry.value.mappingAssets { asset in
                        var asset = asset
                        asset.downloadURL = link(entry.name, asset)
                        return asset
                    },
                    isEncrypted: entry.isEncrypted,
                    numbersAsStrings: selection.numbersAsStrings,
                    to: &object
                )
            }
        }
        return writer.bytes
    }

    /// Returns the selected fields of a stored object.
    package static func select(_ selection: Selection, from bytes: [UInt8]) throws(JSONError) -> [UInt8] {
        if selection == .all { return bytes }
        let entries = try decode(bytes).filter { selection.desiredKeys?.contains($0.name) ?? true }
        guard selection.numbersAsStrings else { return encode(entries) }
        var writer = JSONWriter()
        writer.object { object in
            for entry in entries {
                object.key(entry.name)
                FieldCodec.write(entry.value, isEncrypted: entry.isEncrypted, numbersAsStrings: true, to: &object)
            }
        }
        return writer.bytes
    }
}

extension FieldValue {
    /// An approximate size for types without text.
    fileprivate var contentBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .list(_, let values): values.reduce(0) { $0 + $1.contentBytes }
        case .int64, .double, .timestamp: 8
        case .location: 64
        case .reference, .asset: 256
        }
    }
}

extension FieldsJSON {
    /// Returns a stored object in which references to the zone `old` refer to `new`.
    ///
    /// An object without such references is returned unchanged. Throws only if the bytes were not written by `encode`,
    /// that is, if the store is corrupt.
    package static func movingReferences(
        from old: ZoneID,
        to new: ZoneID,
        in bytes: [UInt8]
    ) throws(JSONError) -> [UInt8] {
        try mappingReferences(in: bytes) { reference in
            guard reference.zone == old else { return reference }
            var reference = reference
            reference.zone = new
            return reference
        }
    }

    /// Returns a stored object with each of its references transformed; the same bytes if none changes.
    package static func mappingReferences(
        in bytes: [UInt8],
        _ change: (Reference) -> Reference
    ) throws(JSONError) -> [UInt8] {
        var hasChanged = false
        let entries = try decode(bytes).map { entry in
            var entry = entry
            entry.value = entry.value.mappingReferences { reference in
                let changed = change(reference)
                hasChanged = hasChanged || changed != reference
                return changed
            }
            return entry
        }
        return hasChanged ? encode(entries) : bytes
    }
}
