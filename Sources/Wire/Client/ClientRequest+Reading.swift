import Records

/// What this client has written, read back: requests that outlive the program.
extension ClientRequest {
    /// An element of `operations` as `operation` writes it.
    ///
    /// Of a share, and of lists without a type, nothing is read. Throws where it is none.
    package static func write(_ operation: JSONValue) throws(JSONError) -> Write {
        let word = try operation.required("operationType")
        guard let type = OperationType(rawValue: try word.string()) else { throw word.mismatch("a type of operation") }
        let record = try operation.required("record")
        var write = Write(
            type,
            try record.required("recordName").string(),
            recordType: try record["recordType"]?.string(),
            changeTag: try record["recordChangeTag"]?.string()
        )
        if let parent = record["parent"] { write.parent = .some(try parent["recordName"]?.string()) }
        guard let fields = record["fields"] else { return write }
        let (values, encrypted) = try ClientResponse.fields(fields)
        for (name, _) in try fields.members() { write.fields.updateValue(values[name], forKey: name) }
        write.encrypted = encrypted
        return write
    }

    /// All operations of a `records/modify`, in their order.
    package static func writes(_ body: [UInt8]) throws(JSONError) -> [Write] {
        var writes: [Write] = []
        let document = try JSONDocument(parsing: body, limits: .response)
        for operation in try document.root.required("operations").elements() { writes.append(try write(operation)) }
        return writes
    }
}
