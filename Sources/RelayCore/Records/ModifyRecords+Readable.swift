import Records
import Wire

extension ModifyRecords {
    /// Returns a function that tells whether a record exists and is unreadable; it reads each record once.
    func unreadableRecords(
        of zone: Zone,
        _ schema: Schema,
        in writer: any StoreWriter
    ) -> (String) throws(RelayError) -> Bool {
        var known: [String: Bool] = [:]
        return { [database] name throws(RelayError) in
            if let known = known[name] { return known }
            let record = try writer.records(named: [name], in: zone)[name]
            let isUnreadable = record.map { !database.rights(to: $0, in: schema).contains(.read) } ?? false
            known[name] = isUnreadable
            return isUnreadable
        }
    }
}
