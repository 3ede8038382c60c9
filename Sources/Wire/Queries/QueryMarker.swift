package import Records

/// Continuation markers: the position after a page, with a fingerprint of the query.
///
/// A position can contain values that its recipient may not read, so the caller must encrypt markers. See Wire.md,
/// "Queries".
package enum QueryMarker {
    /// Encodes a page's end; `zone` is the queried zone, `nil` for all zones.
    package static func encode(_ position: Query.Position, of query: Query, in zone: ZoneID?) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { marker in
            marker.member("q", fingerprint(of: query, in: zone))
            marker.member("n", position.recordName)
            marker.member("z", position.zone.zoneName)
            marker.member("o", position.zone.owner.recordName)
            marker.key("k")
            marker.array(position.keys) { write($1, to: &$0) }
        }
        return writer.bytes
    }

    /// Decodes a marker of this query; `nil` bytes are an invalid marker.
    ///
    /// Throws `badRequest` for an invalid marker and for one of a different query.
    package static func decode(
        _ bytes: [UInt8]?,
        of query: Query,
        in zone: ZoneID?
    ) throws(RelayError) -> Query.Position {
        do {
            guard let bytes else { throw RelayError.wrongMarker }
            let json = try JSONDocument(parsing: bytes).root
            guard try json.required("q").string() == fingerprint(of: query, in: zone) else {
                throw RelayError.wrongMarker
            }
            let owner = UserID(try json.required("o").string())
            return Query.Position(
                keys: try json.required("k").elements().map { try readKey($0) },
                recordName: try json.required("n").string(),
                zone: ZoneID(try json.required("z").string(), owner: owner)
            )
        } catch {
            throw .wrongMarker
        }
    }

    private static func write(_ key: QueryKey, to writer: inout JSONWriter) {
        writer.object {
            switch key {
            case .absent: break
            case .number(let number): $0.member("i", number)
            case .real(let number):
                // The number must be restored exactly.
                $0.member("d", String(number.bitPattern, radix: 36))
            case .text(let text): $0.member("t", text)
            case .bytes(let bytes): $0.member("b", Base64.encode(bytes))
            }
        }
    }

    private static func readKey(_ json: JSONValue) throws -> QueryKey {
        if let number = json["i"] { return .number(try number.int64()) }
        if let text = json["t"] { return .text(try text.string()) }
        if let bits = json["d"] {
            guard let bits = UInt64(try bits.string(), radix: 36) else { throw RelayError.wrongMarker }
            return .real(Double(bitPattern: bits))
        }
        if let bytes = json["b"] {
            guard let bytes = Base64.decode(try bytes.string()) else { throw RelayError.wrongMarker }
            return .bytes(bytes)
        }
        guard json.isObject else { throw RelayError.wrongMarker }
        return .absent
    }

    /// Stable across processes.
    private static func fingerprint(of query: Query, in zone: ZoneID?) -> String {
        var text = ClientRequest.encode(query)
        if let zone { text += "\(zone)".utf8 }
        return String(Fingerprint(of: text).sum, radix: 36)
    }
}

extension RelayError {
    fileprivate static let wrongMarker = RelayError.badRequest(
        "The continuationMarker does not belong to this query: send the query that returned it, unchanged."
    )
}
