import Records

/// Decoding of requests that this client has encoded and stored across restarts.
extension ClientRequest {
    /// Decodes an element of `operations` as encoded by `operation`.
    ///
    /// Shares and untyped lists are not decoded. Throws if it is not an operation.
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

    /// Decodes all operations of a `records/modify` request, in order.
    package static func writes(_ body: [UInt8]) throws(JSONError) -> [Write] {
        var writes: [Write] = []
        let document = try JSONDocument(parsing: body, limits: .response)
        for operation in try document.root.required("operations").elements() { writes.append(try write(operation)) }
        return writes
    }
}
