import Records
import RelayAPI
import Synchronization
import Wire
import ZoneKit
import ZoneTesting

/// Pictures: records whose only field is an asset. Several records can have the same content.
extension Hand {
    /// Zones with different visibility: `Far` is private, `Z0` is shared as a whole, and the tree is shared from its
    /// root.
    static let pictureZones = ["Far", "Z0", "Z1", tree.zoneName]

    /// Uploads a file and saves a record with it.
    func putPicture(_ number: Int, in zone: String, _ content: [UInt8]) {
        act("picture") { hand in
            let place = #""zoneID":{"zoneName":"\#(zone)"}"#
            let ask =
                #"{\#(place),"tokens":[{"recordType":"Picture","fieldName":"file","recordName":"pic\#(number)"}]}"#
            let said = try await hand.call("assets/upload", ask)
            guard let address = try said["tokens"]?.elements().first?["url"]?.string(),
                let carrier = hand.judge.files.withLock({ $0 }),
                let answer = number % 2 == 0
                    ? carrier.put(content, at: address) : carrier.putInTwo(content, at: address),
                let asset = try JSONDocument(parsing: answer.body).root["singleFile"]
            else { return }
            let checksum = try asset.required("fileChecksum").string()
            hand.judge.brought(content, as: checksum)
            try await hand.savePicture(number, in: zone, asset)
        }
    }

    /// Saves a record with the asset of another record.
    func copyPicture(_ number: Int, in zone: String, from other: Int) {
        act("picture copied") { hand in
            let place = #""zoneID":{"zoneName":"\#(zone)"}"#
            let ask = #"{\#(place),"assets":[{"recordName":"pic\#(other)","fieldName":"file"}]}"#
            let said = try await hand.call("assets/rereference", ask)
            guard let asset = try said["assets"]?.elements().first, asset["receipt"] != nil else { return }
            try await hand.savePicture(number, in: zone, asset)
        }
    }

    private func savePicture(_ number: Int, in zone: String, _ asset: JSONValue) async throws {
        let checksum = try asset.required("fileChecksum").string()
        let (size, receipt) = (try asset.required("size").int64(), try asset.required("receipt").string())
        let value = #"{"fileChecksum":"\#(checksum)","size":\#(size),"receipt":"\#(receipt)"}"#
        // Below the tree's root, so that the participants see it.
        let parent = zone == Self.tree.zoneName ? #","parent":{"recordName":"t0"}"# : ""
        let record =
            #"{"recordName":"pic\#(number)","recordType":"Picture"\#(parent),"fields":{"file":{"value":\#(value),"type":"ASSETID"}}}"#
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#
        _ = try await call("records/modify", body, isWrite: true)
    }

    func deletePicture(_ number: Int, in zone: String) {
        act("picture deleted") { hand in
            let body =
                #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"forceDelete","record":{"recordName":"pic\#(number)"}}]}"#
            _ = try await hand.call("records/modify", body, isWrite: true)
        }
    }

    /// Tries to save a record with an asset of which the caller knows only the checksum.
    func claimPicture(_ number: Int) {
        act("picture claimed") { hand in
            let checksums = hand.judge.state.withLock { $0.contents.keys.sorted() }
            guard !checksums.isEmpty else { return }
            let checksum = checksums[number % checksums.count]
            let size = hand.judge.state.withLock { $0.contents[checksum]?.count ?? 0 }
            let record =
                #"{"recordName":"claim","recordType":"Picture","fields":{"file":{"value":{"fileChecksum":"\#(checksum)","size":\#(size)},"type":"ASSETID"}}}"#
            let said = try await hand.call(
                "records/modify",
                #"{"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#,
                isWrite: true
            )
            guard try said["records"]?.elements().first?["serverErrorCode"] == nil else { return }
            hand.judge.accuse("f", "\(hand.device.user ?? "") claimed an asset by its checksum alone, and has it now")
        }
    }

    func call(_ operation: String, _ body: String, isWrite: Bool = false) async throws -> JSONValue {
        try await device.connection.send(RelayCall(.private, operation, Array(body.utf8), isWrite: isWrite)).root
    }
}
