/// The name of an element of a schema, as used in diagnostics and differences.
package enum SchemaElement: Hashable, Sendable, Comparable {
    case role(String)
    case type(String)
    case field(type: String, String)
    case grant(type: String, role: String)

    package static func < (a: SchemaElement, b: SchemaElement) -> Bool { a.place.lexicographicallyPrecedes(b.place) }

    /// The sort key: roles first, then each type with its fields and its grants.
    private var place: [String] {
        switch self {
        case .role(let name): ["", name]
        case .type(let name): [name]
        case .field(let type, let name): [type, "1", name]
        case .grant(let type, let role): [type, "2", role]
        }
    }

    /// The names separately, for machine-readable output.
    package var names: (recordType: String?, field: String?, role: String?) {
        switch self {
        case .role(let name): (nil, nil, name)
        case .type(let name): (name, nil, nil)
        case .field(let type, let name): (type, name, nil)
        case .grant(let type, let role): (type, nil, role)
        }
    }

    /// The element in a sentence: `field 'title' of record type 'Note'`.
    package var sentenceName: String {
        switch self {
        case .role(let name): "role '\(name)'"
        case .type(let name): "record type '\(name)'"
        case .field(let type, let name): "field '\(name)' of record type '\(type)'"
        case .grant(let type, let role): "the rights of role '\(role)' to record type '\(type)'"
        }
    }
}
