package import Records

extension FieldsJSON {
    /// A stored object in which references that name the zone `old` name `new`.
    ///
    /// Objects without any are given back as they are. Throws only when the bytes are not what `encode` wrote: a damaged
    /// store.
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

    /// A stored object with each of its references changed; given back as it is where none is another then.
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
