package import Records

/// The JSON format of zone IDs.
///
/// See Wire.md, "Zone IDs".
package enum ZoneIDCodec {
    /// Writes all three members; the type follows from the name.
    package static func write(_ zone: ZoneID, to writer: inout JSONWriter) {
        writer.object {
            $0.member("zoneName", zone.zoneName)
            $0.member("ownerRecordName", zone.owner.recordName)
            $0.member("zoneType", zone.isDefault ? "DEFAULT_ZONE" : "REGULAR_CUSTOM_ZONE")
        }
    }

    /// Reads a zone ID; the owner may also be called `ownerName`.
    ///
    /// An absent or empty owner means the caller: some clients send empty strings instead of omitting members.
    package static func read(_ json: JSONValue) throws(JSONError) -> ZoneID {
        let name = try json.required("zoneName").string()
        guard let owner = try (json["ownerRecordName"] ?? json["ownerName"])?.string(), !owner.isEmpty else {
            return ZoneID(name)
        }
        return ZoneID(name, owner: UserID(owner))
    }
}
