import Wire

/// Validates JSON against the part of OpenAPI's schemas that our description uses.
struct JSONSchema {
    let document: JSONValue

    /// Returns the deviations of `value` from `schema`, each with its location; empty if the value conforms.
    func faults(of value: JSONValue, by schema: JSONValue, at place: String = "$") throws -> [String] {
        if let reference = try schema["$ref"]?.string() {
            return try faults(of: value, by: resolve(reference), at: place)
        }
        if value.isNull { return try schema["nullable"]?.bool() == true ? [] : ["\(place) is null"] }
        if schema["type"] == nil, let alternatives = try schema["anyOf"]?.elements() {
            let all = try alternatives.map { try faults(of: value, by: $0, at: place) }
            return all.contains { $0.isEmpty } ? [] : all.first ?? []
        }
        if let words = try schema["enum"]?.elements(),
            !words.contains(where: { Array($0.rawBytes) == Array(value.rawBytes) })
        {
            return ["\(place) is none of the enumeration: \(String(decoding: value.rawBytes, as: UTF8.self))"]
        }
        switch try schema["type"]?.string() {
        case "object": return value.isObject ? try faults(ofObject: value, schema, place) : ["\(place) is no object"]
        case "array":
            guard value.isArray else { return ["\(place) is no array"] }
            guard let items = schema["items"] else { return [] }
            return try value.elements().enumerated().flatMap {
                try faults(of: $0.element, by: items, at: "\(place)[\($0.offset)]")
            }
        case "string": return value.isString ? [] : ["\(place) is no string"]
        case "integer": return value.isInteger ? [] : ["\(place) is no integer"]
        case "number": return value.isNumber ? [] : ["\(place) is no number"]
        case "boolean": return value.isBool ? [] : ["\(place) is no boolean"]
        default: return []
        }
    }

    private func faults(ofObject value: JSONValue, _ schema: JSONValue, _ place: String) throws -> [String] {
        let members = try value.members()
        var faults: [String] = []
        for name in try schema["required"]?.elements().map({ try $0.string() }) ?? []
        where !members.contains(where: { $0.name == name }) {
            faults.append("\(place).\(name) is missing")
        }
        let properties = try schema["properties"]?.members() ?? []
        for member in members {
            if let property = properties.first(where: { $0.name == member.name }) {
                faults += try self.faults(of: member.value, by: property.value, at: "\(place).\(member.name)")
            } else if let others = schema["additionalProperties"], others.isObject {
                faults += try self.faults(of: member.value, by: others, at: "\(place).\(member.name)")
            } else if schema["properties"] != nil, schema["additionalProperties"] == nil {
                // The description has to cover every member that the relay sends.
                faults.append("\(place).\(member.name) is not described")
            }
        }
        return faults
    }

    func resolve(_ reference: String) throws -> JSONValue {
        var value = document
        for part in reference.dropFirst(2).split(separator: "/") {
            guard let next = try value.members().first(where: { $0.name == part })?.value else {
                throw UnknownReference(reference: reference)
            }
            value = next
        }
        return value
    }
}

struct UnknownReference: Error {
    var reference: String
}
