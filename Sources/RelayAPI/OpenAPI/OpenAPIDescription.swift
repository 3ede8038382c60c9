import Wire

/// What the relay serves at `/openapi.json`: a description of its wire from which clients can be generated.
///
/// OpenAPI 3.0.3, since all generators read it. Put together once from the table of operations and the schemas, both
/// written out in the sources beside this file. A test compares the table with the routes, and another the answers of a relay
/// with the schemas.
package enum OpenAPIDescription {
    /// The whole document.
    package static let json: [UInt8] = document

    /// Whether this path asks for it; what stands in front is a proxy's prefix.
    static func isAsked(by path: String) -> Bool {
        path.hasSuffix("/openapi.json") && !path.contains("/database/1/") && !path.contains("/device/1/")
    }

    private static var document: [UInt8] {
        var writer = JSONWriter(reserving: 128 * 1024)
        writer.object { root in
            root.member("openapi", "3.0.3")
            root.key("info")
            root.raw(Array(OpenAPIText.info.utf8))
            root.key("servers")
            root.raw(Array(#"[{"url":"/","description":"The relay that serves this description."}]"#.utf8))
            root.key("tags")
            root.raw(Array(OpenAPIText.tags.utf8))
            root.key("paths")
            root.object { writePaths(to: &$0) }
            root.key("components")
            root.object { writeComponents(to: &$0) }
        }
        return writer.bytes
    }

    private static func writePaths(to paths: inout JSONWriter) {
        for operation in OpenAPIOperation.all {
            for path in operation.paths {
                paths.key(path.text)
                paths.object { item in
                    item.key("parameters")
                    item.array(path.parameters) { list, name in list.reference("parameters", name) }
                    for method in operation.methods {
                        item.key(method.rawValue)
                        item.object { operation.write(method, path, to: &$0) }
                    }
                }
            }
        }
        for (path, item) in OpenAPIText.otherPaths {
            paths.key(path)
            paths.raw(Array(item.utf8))
        }
    }

    private static func writeComponents(to components: inout JSONWriter) {
        components.key("securitySchemes")
        components.raw(Array(OpenAPIText.securitySchemes.utf8))
        components.key("parameters")
        components.raw(Array(OpenAPIText.parameters.utf8))
        components.key("headers")
        components.raw(Array(OpenAPIText.headers.utf8))
        components.key("responses")
        components.object { responses in
            for (name, text) in OpenAPIText.refusals {
                responses.key(name)
                responses.object { writeRefusal(text, to: &$0) }
            }
        }
        components.key("schemas")
        components.object { schemas in
            for (name, schema) in OpenAPISchemas.all {
                schemas.key(name)
                schemas.raw(Array(schema.utf8))
            }
        }
    }

    private static func writeRefusal(_ text: String, to response: inout JSONWriter) {
        response.member("description", text)
        response.key("headers")
        response.object { headers in
            headers.key("X-Apple-Request-UUID")
            headers.reference("headers", "RequestUUID")
        }
        response.content("Error")
    }
}

extension JSONWriter {
    /// `{"$ref": …}` to a component.
    mutating func reference(_ kind: String, _ name: String) {
        object { $0.member("$ref", "#/components/\(kind)/\(name)") }
    }

    /// A JSON body of a schema.
    mutating func content(_ schema: String) {
        key("content")
        object { content in
            content.key("application/json")
            content.object { media in
                media.key("schema")
                media.reference("schemas", schema)
            }
        }
    }
}
