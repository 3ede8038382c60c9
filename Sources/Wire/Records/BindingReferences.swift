package import Records

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension FieldsJSON {
    /// The references with an action other than NONE in a stored object, each with the field that holds it.
    ///
    /// Asks no schema, so that what was once stored is found whatever the schema has become. Objects without any, as most
    /// are, cost one search. Throws only when the bytes are not what `encode` wrote: a damaged store.
    package static func bindingReferences(
        in bytes: [UInt8]
    ) throws(JSONError) -> [(field: String, reference: Reference)] {
        guard holdsBindingReference(bytes) else { return [] }
        var found: [(String, Reference)] = []
        for entry in try decode(bytes) {
            for reference in entry.value.references where reference.action != .none {
                found.append((entry.name, reference))
            }
        }
        return found
    }

    /// Inside of a string the quotes would be escaped: what is found is an action.
    private static func holdsBindingReference(_ bytes: [UInt8]) -> Bool {
        let key: StaticString = #""action""#
        return bytes.withUnsafeBytes { text in
            guard let start = text.baseAddress else { return false }
            var position = key.utf8CodeUnitCount
            while position < text.count,
                let found = memchr(start + position, Int32(UInt8(ascii: ":")), text.count - position)
            {
                let colon = UnsafeRawPointer(found) - start
                position = colon + 1
                // `:"N` is NONE, and nothing else begins so.
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
