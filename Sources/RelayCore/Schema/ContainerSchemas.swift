package import Records

/// A container's schemas, for the console and for commands that run beside a relay.
///
/// The relay notices a change with its next commit or read. Throws `DirectoryError` if the schemas cannot be used.
package protocol ContainerSchemas: Sendable {
    /// Returns an environment's schema; that of an unused environment is empty, and no store is created for it.
    func schema(of environment: Environment) throws -> Schema

    /// Replaces a schema by the one that `body` returns, with a new version; `nil` changes nothing.
    ///
    /// Runs in one transaction: a running relay writes before it or after it.
    func change<Result>(
        _ environment: Environment,
        _ body: (Schema) throws -> (schema: Schema?, Result)
    ) throws -> Result

    /// Deletes everything in the development environment, and makes its schema a copy of production's.
    ///
    /// Earlier tokens are refused from then on. No relay may use the environment: it would continue with its cached
    /// state. `draw` returns 64 random bits.
    func resetDevelopment(draw: () -> UInt64) throws
}

extension ContainerSchemas {
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
        _ environment: Environment,
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
