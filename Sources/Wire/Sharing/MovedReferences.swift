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
        var hasMoved = false
        let entries = try decode(bytes).map { entry in
            var entry = entry
            entry.value = entry.value.mappingReferences { reference in
                guard reference.zone == old else { return reference }
                hasMoved = true
                var reference = reference
                reference.zone = new
                return reference
            }
            return entry
        }
        return hasMoved ? encode(entries) : bytes
    }
}
