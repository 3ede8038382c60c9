import Records
import Wire

/// The records that a move concerns, read before anything is written.
struct FoundForMove {
    let request: MoveRecords
    let source: Zone?
    let destination: Zone?
    /// The live records to move.
    var moving: [String: StoredRecord] = [:]
    /// The records with the same names in the destination, tombstones included.
    var before: [String: StoredRecord] = [:]

    mutating func load(_ items: [MoveRecords.Item], from writer: any StoreWriter) throws(RelayError) {
        let names = items.map(\.name)
        var bytes = 0
        for part in MoveRecords.parts(of: names) {
            if let destination {
                for (name, record) in try writer.records(named: part, in: destination) {
                    before[name] = record
                    bytes += record.fields.count
                }
            }
            if let source {
                for (name, record) in try writer.records(named: part, in: source) where !record.isDeleted {
                    moving[name] = record
                    bytes += record.fields.count
                }
            }
            guard bytes <= request.limits.bytesPerMove else { throw .tooManyBytes(request.limits.bytesPerMove) }
        }
    }

    func judge(_ item: MoveRecords.Item) -> MoveRecords.Outcome {
        let there = before[item.name].flatMap { $0.isDeleted ? nil : $0 }
        func refusal(_ error: RelayError) -> MoveRecords.Outcome {
            .failed(name: item.name, error, server: error.code == .conflict ? moving[item.name] : there)
        }
        guard let record = moving[item.name] else { return there.map { .moved($0) } ?? refusal(.recordNotFound) }
        if there != nil {
            return refusal(RelayError(.exists, "The destination has a record of that name already."))
        }
        if record.isShare { return refusal(.badRequest("A share's own record stays in its zone.")) }
        if record.shareMark?.record != nil, !request.deletesSource { return refusal(.alreadyShared) }
        if let tag = item.changeTag, tag != record.changeTag {
            return refusal(RelayError(.conflict, "client oplock error moving record"))
        }
        if record.parent != nil, request.destination.isDefault {
            return refusal(.badRequest("Only records of a custom zone have a parent."))
        }
        return .moved(record)
    }

    /// Returns an error if a record cannot move because a record that it references, or that references it, stays
    /// behind.
    ///
    /// Only parents, `VALIDATE` and `DELETE_SELF` references count.
    func tornReference(of name: String, in writer: any StoreWriter) throws(RelayError) -> RelayError? {
        guard let record = moving[name], let source else { return nil }
        var targets = [record.parent].compactMap { $0 }
        if let binding = try? FieldsJSON.bindingReferences(in: record.fields) {
            targets += binding.map(\.reference.recordName)
        }
        for target in targets where moving[target] == nil && before[target].map(\.isDeleted) ?? true {
            let stays = try writer.records(named: [target], in: source)[target].map { !$0.isDeleted } ?? false
            if stays { return .torn(target) }
        }
        var holder: String?
        try writer.visitReferences(to: name, in: source) { reference in
            guard moving[reference.source] == nil else { return true }
            holder = reference.source
            return false
        }
        return holder.map { .torn($0) }
    }
}

extension RelayError {
    fileprivate static func tooManyBytes(_ limit: Int) -> RelayError {
        RelayError(
            .badRequest,
            "Records of at most \(limit >> 20) MB can be moved at once. Move fewer.",
            fineCode: .limitExceeded
        )
    }

    fileprivate static func torn(_ name: String) -> RelayError {
        RelayError(
            .validatingReferenceError,
            "References cannot cross zones, and the record '\(name)' would stay behind. Move it in the same request."
        )
    }
}
