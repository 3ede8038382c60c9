package import Records

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension FieldsJSON {
    /// Returns the references in a stored object with an action other than `NONE`, each with its field.
    ///
    /// Independent of the schema, so that stored references are found even after a schema change. An object without
    /// such references costs one search. Throws only if the bytes were not written by `encode`, that is, if the store
    /// is corrupt.
    package static func enforcedReferences(
        in bytes: [UInt8]
    ) throws(JSONError) -> [(field: String, reference: Reference)] {
        guard containsEnforcedReference(bytes) else { return [] }
        var found: [(String, Reference)] = []
        for entry in try decode(bytes) {
            for reference in entry.value.references where reference.action != .none {
                found.append((entry.name, reference))
            }
        }
        return found
    }

    /// Quotes within a string are escaped, so a match is always an action.
    private static func containsEnforcedReference(_ bytes: [UInt8]) -> Bool {
        let key: StaticString = #""action""#
        return bytes.withUnsafeBytes { text in
            guard let start = text.baseAddress else { return false }
            var position = key.utf8CodeUnitCount
            while position < text.count,
                let found = memchr(start + position, Int32(UInt8(ascii: ":")), text.count - position)
            {
                let colon = UnsafeRawPointer(found) - start
                position = colon + 1
                // Only `NONE` begins with `:"N`.
                if colon + 2 < text.count, text[colon + 1] == UInt8(ascii: "\""), text[colon + 2] != UInt8(ascii: "N"),
                    memcmp(found - key.utf8CodeUnitCount, key.utf8Start, key.utf8CodeUnitCount) == 0
                {
                    return true
                }
            }
            return false
        }
    }
}
