package import Records
package import RelayCore

extension SchemaFolder {
    /// Returns what an import of `schema` into development changes, and makes the change if `applies` and it is allowed.
    package func importing(_ schema: Schema, applies: Bool) throws -> SchemaChange {
        let production = try self.schema(of: .production)
        return try change(.development, applies: applies) {
            SchemaChange(importing: schema, over: $0, production: production)
        }
    }

    /// Returns what a promotion of development's schema changes in production, and makes the change if `applies` and it
    /// is allowed.
    package func promoting(applies: Bool) throws -> SchemaChange {
        let development = try schema(of: .development)
        return try change(.production, applies: applies) { SchemaChange(promoting: development, over: $0) }
    }

    private func change(
        _ environment: Records.Environment,
        applies: Bool,
        _ change: (Schema) -> SchemaChange
    ) throws -> SchemaChange {
        guard applies else { return change(try schema(of: environment)) }
        return try self.change(environment) { old in
            let change = change(old)
            return (change.isAllowed && !change.difference.isEmpty ? change.result : nil, change)
        }
    }
}
