package import Records

extension ClientRequest {
    /// `assets/upload`: requests upload URLs, each for a field of a record.
    ///
    /// See Wire.md, "Asset operations".
    package static func uploads(
        _ fields: [UploadField],
        in zone: ZoneID
    ) -> [UInt8] {
        body { object in
            zoneID(zone, &object)
            object.key("tokens")
            object.array(fields) { list, field in
                list.object {
                    $0.member("recordName", field.recordName)
                    $0.member("recordType", field.recordType)
                    $0.member("fieldName", field.fieldName)
                    $0.member("fileChecksum", field.asset.fileChecksum)
                    $0.member("size", field.asset.size)
                }
            }
        }
    }

    /// A field whose asset will be uploaded.
    package struct UploadField: Sendable {
        package var recordName: String
        package var recordType: String
        package var fieldName: String
        /// The asset's checksum and size: a relay that already has it needs no upload.
        package var asset: Asset

        package init(recordName: String, recordType: String, fieldName: String, asset: Asset) {
            self.recordName = recordName
            self.recordType = recordType
            self.fieldName = fieldName
            self.asset = asset
        }
    }

    /// `assets/rereference` for one field's asset.
    package static func rereference(_ recordName: String, _ fieldName: String, in zone: ZoneID) -> [UInt8] {
        body { object in
            zoneID(zone, &object)
            object.key("assets")
            object.array(CollectionOfOne(recordName)) { list, name in
                list.object {
                    $0.member("recordName", name)
                    $0.member("fieldName", fieldName)
                }
            }
        }
    }
}

extension ClientResponse {
    /// Decodes the relay's response to an upload.
    package static func uploadedAsset(_ json: JSONValue) throws(JSONError) -> Asset {
        var asset = Asset(
            fileChecksum: try json.required("fileChecksum").string(),
            size: try json.required("size").int64()
        )
        asset.receipt = try json["receipt"]?.string()
        asset.referenceChecksum = try json["referenceChecksum"]?.string()
        asset.wrappingKey = try json["wrappingKey"]?.string()
        return asset
    }
}
