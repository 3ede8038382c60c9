import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Creating the model's schema on the relay before the first object.
///
/// See StoresAndModels.md, "Schema".
extension MirroredContainer {
    /// Options of `initializeSchema`.
    public struct SchemaOptions: OptionSet, Sendable {
        /// The options' bits.
        public let rawValue: Int

        /// Creates options from their bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Checks the model and sends nothing.
        public static let dryRun = SchemaOptions(rawValue: 1)
        /// Returns the record types as text; with `dryRun`, does nothing else.
        public static let printSchema = SchemaOptions(rawValue: 2)
    }

    /// Creates every record type and field of the mirrored stores in the development environment; may be repeated.
    ///
    /// Needed only to see the types on the relay before there are objects, because in development the first save
    /// creates what is missing. Leaves no records behind.
    ///
    /// - Parameter options: What to do.
    /// - Returns: The record types as text, with `printSchema`.
    /// - Throws: `modelIncompatible` with every violation. `relay`, because production takes its schema from
    ///   development.
    @discardableResult
    public func initializeSchema(options: SchemaOptions = []) async throws(MirrorError) -> String? {
        let violations = descriptions.flatMap { self.violations(for: $0) }
        if !violations.isEmpty {
            throw MirrorError(
                .modelIncompatible(violations),
                "The model cannot be mirrored. Each line names a problem and its solution."
            )
        }
        var mappings: [RecordMapping] = []
        for description in descriptions {
            guard let cloud = description.cloud, cloud.scope != .shared else { continue }
            let mapping = RecordMapping(tables: model.tables(in: description.configuration), prefix: cloud.prefix)
            mappings.append(mapping)
            if !options.contains(.dryRun) { try await make(mapping, cloud) }
        }
        return options.contains(.printSchema) ? SchemaPrinter.text(of: ModelSchema.schema(of: mappings)) : nil
    }

    private func make(_ mapping: RecordMapping, _ cloud: CloudOptions) async throws(MirrorError) {
        do {
            guard try cloud.container.session.connection().environment == .development else {
                throw CKError(
                    .permissionFailure,
                    "Production's schema changes only by promoting development's: zonecast schema promote."
                )
            }
            let database = cloud.container.database(with: cloud.scope).repeatingRequests
            let assets = AssetValues(of: database)
            let zone = ZoneID(ZoneID.defaultName)
            for sample in ModelSchema.samples(mapping, in: zone) {
                let write = try await assets.uploadingAssets(sample, in: zone)
                for step in [write, .init(.forceDelete, write.recordName)] {
                    for case .failed(let error, _) in try await database.client.modify(
                        [step],
                        in: zone,
                        atomically: false
                    ) {
                        throw error
                    }
                }
            }
        } catch {
            throw MirrorError(from: error)
        }
    }
}

/// Converts a model to record types.
enum ModelSchema {
    /// Returns all types of some stores with every index that their fields can have, including those needed by polls
    /// and queries.
    static func schema(of mappings: [RecordMapping]) -> Schema {
        var schema = Schema()
        for mapping in mappings {
            for table in mapping.tableNames.compactMap({ mapping.tables[$0] }) {
                let type = mapping.recordType(of: table)
                schema.types[type, default: RecordType()].fields.merge(fields(of: table, mapping)) { first, _ in first }
            }
        }
        return schema
    }

    static func fields(of table: TableLayout, _ mapping: RecordMapping) -> [String: RecordType.Field] {
        if case .pairs = table.kind {
            let names = mapping.fields(of: ["a".databaseValue, "b".databaseValue], in: table).keys
            return Dictionary(uniqueKeysWithValues: names.map { ($0, RecordType.Field(.scalar(.string))) })
        }
        var fields = [mapping.prefix + "entityName": RecordType.Field(.scalar(.string))]
        if !table.lastEditWinsColumns.isEmpty { fields[mapping.editTimesField] = RecordType.Field(.scalar(.string)) }
        for column in table.columns {
            let attribute = column.attribute
            let isEncrypted = attribute?.isEncrypted ?? false
            let type = attribute?.type.fieldType ?? .scalar(.string)
            fields[mapping.field(column)] = RecordType.Field(type, isEncrypted: isEncrypted)
            if attribute?.type.hasLargeForm == true, !isEncrypted {
                fields[mapping.assetField(column)] = RecordType.Field(.scalar(.asset))
            }
        }
        return fields
    }

    /// Returns records with a value in every field; types with companion fields need two, because a value is in only
    /// one of both.
    static func samples(_ mapping: RecordMapping, in zone: ZoneID) -> [Outgoing] {
        mapping.tableNames.compactMap { mapping.tables[$0] }.flatMap { table -> [Outgoing] in
            let plain = sample(table, mapping, zone, large: [:])
            let companions = table.columns.filter { column in
                guard let attribute = column.attribute else { return false }
                return attribute.type.hasLargeForm && !attribute.isEncrypted
            }
            if companions.isEmpty { return [plain] }
            let large = Dictionary(companions.map { (mapping.field($0), mapping.assetField($0)) }) { $1 }
            return [plain, sample(table, mapping, zone, large: large)]
        }
    }

    private static func sample(
        _ table: TableLayout,
        _ mapping: RecordMapping,
        _ zone: ZoneID,
        large: [String: String]
    ) -> Outgoing {
        let name = "schema-\(UUID().uuidString)"
        var write = ClientRequest.Write(.create, name, recordType: mapping.recordType(of: table))
        let row = table.columns.map { column -> DatabaseValue in
            guard let attribute = column.attribute else { return "target".databaseValue }
            // An asset must not be empty.
            return attribute.type == .data || attribute.type == .transformable
                ? Data([0]).databaseValue
                : attribute.type.zero == "".databaseValue ? "-".databaseValue : attribute.type.zero
        }
        write.fields = mapping.fields(of: row, in: table).mapValues { $0 }
        if !table.lastEditWinsColumns.isEmpty { write.fields[mapping.editTimesField] = .string("{}") }
        write.encrypted = Set(
            table.columns.filter { $0.attribute?.isEncrypted == true }.map { mapping.field($0) }
        )
        return Outgoing(
            oid: name,
            entity: table.name,
            operation: .save,
            version: 0,
            tries: 0,
            place: 0,
            zone: zone,
            write: write,
            large: large,
            size: 0
        )
    }
}

extension AttributeType {
    /// The type of the attribute's field.
    fileprivate var fieldType: FieldType {
        switch self {
        case .string, .uuid, .uri, .undefined, .objectID: .scalar(.string)
        case .integer, .boolean: .scalar(.int64)
        case .double: .scalar(.double)
        case .date: .scalar(.timestamp)
        case .data, .transformable: .scalar(.bytes)
        }
    }
}
