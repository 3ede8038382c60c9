package import Records

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
