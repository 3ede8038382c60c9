import Records
import Wire

extension ModifyRecords.Decision {
    /// Returns the outcomes as the caller may read them; of a record they may write but not read, only the fields they
    /// sent.
    ///
    /// Write rights without read rights exist only in the public database.
    func readable(_ outcomes: [ModifyRecords.Outcome]) -> [ModifyRecords.Outcome] {
        guard request.database.scope == .public else { return outcomes }
        return zip(request.operations, outcomes).map { operation, outcome in
            switch outcome {
            case .saved(var record) where !mayRead(record):
                let sent = try? preparation(of: operation, type: record.type)
                record.update { $0.fields = sent?.fields.text.bytes ?? FieldsJSON.empty }
                return .saved(record)
            case .failed(let name, let error, let server?) where !mayRead(server):
                return .failed(name: name, error, server: nil)
            default: return outcome
            }
        }
    }

    private func mayRead(_ record: StoredRecord) -> Bool {
        request.database.rights(to: record, in: schema).contains(.read)
    }
}

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
