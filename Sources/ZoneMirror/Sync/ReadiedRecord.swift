import GRDB
import Records
import Wire

/// A record with its prepared row and stored fields, computed outside of the import transaction.
struct ReadiedRecord: Sendable {
    let table: TableForm
    /// The row, with links as record names.
    let row: [DatabaseValue]
    /// The encoded fields as received, which is how they are stored.
    let fields: [UInt8]

    /// Returns `nil` for records that need more work: unknown types, and encrypted values or values in assets.
    init?(_ record: Record, _ entry: JSONValue, _ mapping: RecordMapping) {
        guard record.encryptedFields.isEmpty, !record.fields.values.contains(where: \.type.isAsset),
            let table = mapping.table(forType: record.type, fields: record.fields)
        else { return nil }
        self.table = table
        row = mapping.row(of: record.fields, in: table)
        fields = entry["fields"].map { Array($0.rawBytes) } ?? FieldsJSON.empty
    }
}
