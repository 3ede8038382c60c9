import Foundation
import GRDB
import Records
import Wire
import ZoneKit

/// Telling the relay about the model before the first object.
///
/// SDK reference 2, "Schema".
extension MirroredContainer {
    /// What `initializeSchema` does.
    public struct SchemaOptions: OptionSet, Sendable {
        /// The bits.
        public let rawValue: Int

        /// Makes a set of its bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Checks the model and sends nothing.
        public static let dryRun = SchemaOptions(rawValue: 1)
        /// Gives the record types back as text; only the text, together with `dryRun`.
        public static let printSchema = SchemaOptions(rawValue: 2)
    }

    /// Makes every record type and field of the mirrored stores in the development environment; may run again.
    ///
    /// Needed only to see the types on the relay before there are objects: in development what is unknown is made with
    /// the first save anyway. Leaves no records behind.
    ///
    /// - Parameter options: What to do.
    /// - Returns: The record types as text, with `printSchema`.
    /// - Throws: `modelIncompatible` with every violation, and `relay`: production takes its schema from development.
    @discardableResult
    public func initializeSchema(options: SchemaOptions = []) async throws(MirrorError) -> String? {
        let violations = descriptions.flatMap { self.violations(for: $0) }
        if !violations.isEmpty {
            throw MirrorError(
                .modelIncompatible(violations),
                "The model cannot be mirrored as it is. Each line names a place and what to do there."
            )
        }
        var lines: [String] = []
        for description in descriptions {
            guard let cloud = description.cloud, cloud.scope != .shared else { continue }
            let mapping = RecordMapping(tables: model.tables(in: description.configuration), prefix: cloud.prefix)
            lines += SchemaSamples.text(mapping)
            if !options.contains(.dryRun) { try await make(mapping, cloud) }
        }
        return options.contains(.printSchema) ? lines.joined(separator: "\n") : nil
    }

    private func make(_ mapping: RecordMapping, _ cloud: CloudOptions) async throws(MirrorError) {
        do {
            guard try cloud.container.session.connection().environment == .development else {
                throw CKError(
                    .permissionFailure,
                    "The schema of production is changed by promoting development's: zonecast schema promote."
                )
            }
            let link = MirrorLink(database: cloud.container.database(with: cloud.scope))
            let zone = ZoneID(ZoneID.defaultName)
            for sample in SchemaSamples.writes(mapping) {
                for answer in try await link.modify([sample], in: zone, atomically: false) {
                    if case .failed(let error, _) = answer { throw error }
                }
                _ = try await link.modify([.init(.forceDelete, sample.recordName)], in: zone, atomically: false)
            }
        } catch {
            throw MirrorError(from: error)
        }
    }
}

/// One record of each type, with a value in every field.
private enum SchemaSamples {
    static func writes(_ mapping: RecordMapping) -> [ClientRequest.Write] {
        mapping.tableNames.compactMap { mapping.tables[$0] }.map { table in
            var write = ClientRequest.Write(
                .create,
                "schema-\(UUID().uuidString)",
                recordType: mapping.recordType(of: table)
            )
            write.fields = fields(of: table, mapping).mapValues { $0 }
            return write
        }
    }

    static func text(_ mapping: RecordMapping) -> [String] {
        mapping.tableNames.compactMap { mapping.tables[$0] }.map { table in
            let fields = fields(of: table, mapping).sorted { $0.key < $1.key }
                .map { "    \($0.key) \($0.value.type.tag)" }
            return "RECORD TYPE \(mapping.recordType(of: table)) (\n\(fields.joined(separator: ",\n"))\n)"
        }
    }

    private static func fields(of table: TableForm, _ mapping: RecordMapping) -> [String: FieldValue] {
        if case .pairs = table.kind {
            return mapping.fields(of: ["a".databaseValue, "b".databaseValue], in: table)
        }
        let row = table.columns.map { column in column.attribute?.type.zero ?? "target".databaseValue }
        return mapping.fields(of: row, in: table)
    }
}
