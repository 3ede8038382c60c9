import GRDB
import Records
import Wire

/// A record with what its row and its stored fields will be: made beside the writing, so that the writer only writes.
struct ReadiedRecord: Sendable {
    let table: TableForm
    /// With links as record names.
    let row: [DatabaseValue]
    /// The fields as they came, which is how they are kept.
    let fields: [UInt8]

    /// `nil` for what needs more thought: types that the model does not know, and values that are sealed or in files.
    init?(_ record: Record, _ entry: JSONValue, _ mapping: RecordMapping) {
        guard record.encryptedFields.isEmpty, !record.fields.values.contains(where: \.type.isAsset),
            let table = mapping.table(forType: record.type, fields: record.fields)
        else { return nil }
        self.table = table
        row = mapping.row(of: record.fields, in: table)
        fields = entry["fields"].map { Array($0.rawBytes) } ?? FieldsJSON.empty
    }
}
