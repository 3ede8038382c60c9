import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import TestSupport
import Testing
import Wire

/// Assets from upload to removal.
///
/// See Wire.md, "Assets" and "Asset operations".
@Suite struct AssetTests {
    let world: RelayWorld
    let content = Array("an asset's content".utf8)

    init() throws { world = try RelayWorld() }

    private func uploadAddress(as user: String? = "alice", in database: String = "private") async throws -> String {
        let answer = try await world.ask(
            "\(database)/assets/upload",
            as: user,
            #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"}]}"#
        )
        return try #require(try answer.items("tokens").first?.text("url"))
    }

    private func send(
        _ bytes: [UInt8],
        to address: String,
        _ method: HTTPRequest.Method = .post,
        type: String = "application/octet-stream"
    ) async throws -> Answer {
        let response = await world.relay.respond(
            to: APIRequest(
                method: method,
                path: try #require(URLComponents(string: address)).path,
                headers: [.contentType: type],
                body: bytes
            )
        )
        return Answer(
            status: response.status.code,
            json: try JSONDocument(parsing: response.body).root,
            response: response
        )
    }

    /// Uploads an asset and returns the dictionary to save in a record.
    private func upload(_ bytes: [UInt8]? = nil, as user: String = "alice", in database: String = "private")
        async throws
        -> String
    {
        let answer = try await send(bytes ?? content, to: uploadAddress(as: user, in: database))
        #expect(answer.status == 200)
        return String(decoding: try answer.json.required("singleFile").rawBytes, as: UTF8.self)
    }

    private func save(
        _ asset: String,
        named name: String = "p",
        as user: String = "alice",
        in database: String = "private",
        kind: String = "forceUpdate"
    ) async throws -> JSONValue {
        let operation = RelayWorld.Operation(
            kind: kind,
            name: name,
            type: "Photo",
            fields: #"{"file":{"value":\#(asset)}}"#
        )
        let answer = try await world.modify(in: database, zone: "_defaultZone", as: user, [operation])
        return try #require(try answer.items("records").first)
    }

    private func downloadAddress(_ name: String = "p", as user: String? = "alice", in database: String = "private")
        async throws -> String
    {
        let answer = try await world.ask(
            "\(database)/records/lookup",
            as: user,
            #"{"records":[{"recordName":"\#(name)"}]}"#
        )
        return try #require(try answer.items("records").first?.field("file")?.text("downloadURL"))
    }

    private func get(_ address: String, range: String? = nil, ifRange: String? = nil) async throws -> APIResponse {
        var request = APIRequest(method: .get, path: try #require(URLComponents(string: address)).path)
        request.headers[.range] = range
        request.headers[.ifRange] = ifRange
        return await world.relay.respond(to: request)
    }

    private func bytes(_ response: APIResponse) throws -> [UInt8] {
        let file = try #require(response.file)
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: file.path))
        try handle.seek(toOffset: UInt64(file.offset))
        let data = try #require(try handle.read(upToCount: Int(file.length)))
        return Array(data)
    }

    @Test func anUploadedAssetCanBeDownloaded() async throws {
        let saved = try await save(try await upload())
        let asset = try #require(try saved.field("file"))
        #expect(try asset["size"]?.int64() == Int64(content.count))
        #expect(!asset.hasMember("receipt"))
        let response = try await get(try await downloadAddress())
        #expect(response.status == .ok)
        #expect(try bytes(response) == content)
        #expect(response.headers[.contentDisposition] == "attachment")
        #expect(response.headers[.xContentTypeOptions] == "nosniff")
    }

    /// An unreadable record is a fault of the relay: a client that is told its address has ended keeps requesting
    /// another one.
    @Test func theAddressOfADamagedRecordIsAnsweredWithAnInternalError() async throws {
        _ = try await save(try await upload())
        let address = try await downloadAddress()
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let caller = try await world.ask("public/users/caller", method: .get)
        let owner = UserID(try #require(caller.json.text("userRecordName")))
        try await world.stores.store(of: home).write(touching: owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(ZoneID(ZoneID.defaultName, owner: owner)) else { throw .zoneNotFound }
            let before = try writer.records(named: ["p"], in: zone)
            guard var record = before["p"] else { throw .recordNotFound }
            // The record gets another type, whose assets are not counted: the relay does not write a record that it
            // cannot read.
            record.type = "Other"
            record.fields = Array(#"{"file":{"#.utf8)
            record.change = writer.takeChangeNumber()
            try writer.put([record], replacing: before, in: zone, by: "")
        }
        #expect(try await get(address).status == .internalServerError)
    }

    /// Other clients than ours do not verify the checksum.
    @Test(.enabled(if: TestStore.current.keepsFiles), arguments: [nil, "bytes=0-1"])
    func contentThatChangedOnDiskIsNotServed(range: String?) async throws {
        _ = try await save(try await upload())
        let address = try await downloadAddress()
        let path = try #require(try await get(address).file).path
        try Data(content.reversed()).write(to: URL(fileURLWithPath: path))
        let refused = try await get(address, range: range)
        #expect(refused.status == .internalServerError)
        #expect(refused.file == nil)
        try FileManager.default.removeItem(atPath: path)
        #expect(try await get(address, range: range).status == .internalServerError)
        _ = try await upload()
        #expect(try bytes(try await get(address)) == content)
    }

    @Test func tokensAreReturnedInRequestOrder() async throws {
        let answer = try await world.ask(
            "private/assets/upload",
            #"{"tokens":[{"recordType":"A","fieldName":"x","recordName":"1"},{"recordType":"B","fieldName":"y"}]}"#
        )
        let tokens = try answer.items("tokens")
        #expect(tokens.map { $0.text("fieldName") } == ["x", "y"])
        #expect(tokens.first?.text("recordName") == "1")
        #expect(tokens.last?.text("recordName")?.count == 36)
        #expect(try await world.ask("public/assets/upload", as: nil, #"{"tokens":[]}"#).status == 421)
        for bad in ["{}", #"{"tokens":[{}]}"#, #"{"tokens":[{"recordType":"1","fieldName":"x"}]}"#] {
            #expect(try await world.ask("private/assets/upload", bad).status == 400)
        }
    }

    @Test func allThreeBodyFormatsUploadTheSameAsset() async throws {
        let raw = try await send(content, to: uploadAddress(), .put)
        let form = try await send(content, to: uploadAddress(), type: "application/x-www-form-urlencoded")
        let multipart =
            Array(
                "--XX\r\nContent-Disposition: form-data; name=\"files\"; filename=\"file.file\"\r\n\r\n".utf8
            ) + content + Array("\r\n--XX--\r\n".utf8)
        let parts = try await send(multipart, to: uploadAddress(), type: "multipart/form-data; boundary=XX")
        let checksums = try [raw, form, parts].map { try $0.json.required("singleFile").text("fileChecksum") }
        #expect(Set(checksums).count == 1)
        #expect(try parts.json.required("singleFile")["size"]?.int64() == Int64(content.count))
        let text = try #require(checksums.first ?? nil)
        let checksum = try #require(Base64.decode(text))
        #expect(checksum.count == 21 && checksum.first == 1)
        let broken = try await send(content, to: uploadAddress(), type: "multipart/form-data; boundary=XX")
        #expect(broken.status == 400)
    }

    /// A page's form may have other fields before and after the file.
    @Test(arguments: [
        #"name="files"; filename="file.file""#, #"name="upload"; filename*=UTF-8''a.bin"#,
        #"filename=a.bin; name=upload"#, #"name="files""#, #"NAME=files"#,
    ])
    func onlyTheFileFieldOfAFormIsStored(disposition: String) async throws {
        let field = "--XX\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nfilename=\"no\"\r\n"
        let file = "--XX\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; \(disposition)\r\n\r\n"
        let body = Array((field + file).utf8) + content + Array("\r\n\(field)--XX--\r\n".utf8)
        let answer = try await send(body, to: uploadAddress(), type: "multipart/form-data; boundary=XX")
        #expect(answer.status == 200)
        #expect(try answer.json.required("singleFile")["size"]?.int64() == Int64(content.count))
        let none = Array("\(field)--XX--\r\n".utf8)
        #expect(try await send(none, to: uploadAddress(), type: "multipart/form-data; boundary=XX").status == 400)
    }

    @Test func anEmptyAssetCanBeSaved() async throws {
        _ = try await save(try await upload([]))
        let response = try await get(try await downloadAddress())
        #expect(response.status == .ok && response.file?.length == 0)
    }

    @Test(arguments: [
        ("bytes=0-1", 206, "bytes 0-1/18", "an"), ("bytes=3-", 206, "bytes 3-17/18", "asset's content"),
        ("bytes=-7", 206, "bytes 11-17/18", "content"), ("bytes=17-99", 206, "bytes 17-17/18", "t"),
        ("bytes=18-", 416, "bytes */18", ""), ("bytes=-0", 416, "bytes */18", ""),
        ("bytes=1-0", 200, nil, "an asset's content"), ("bytes=0-1,3-4", 200, nil, "an asset's content"),
        ("lines=1-2", 200, nil, "an asset's content"), ("bytes=a-b", 200, nil, "an asset's content"),
        ("bytes=99999999999999999999-", 200, nil, "an asset's content"),
    ])
    func aRangeRequestReturnsTheRange(range: String, status: Int, contentRange: String?, text: String) async throws {
        _ = try await save(try await upload())
        let response = try await get(try await downloadAddress(), range: range)
        #expect(response.status.code == status)
        #expect(response.headers[.contentRange] == contentRange)
        if status != 416 { #expect(String(decoding: try bytes(response), as: UTF8.self) == text) }
        let other = try await get(try await downloadAddress(), range: range, ifRange: "\"another\"")
        #expect(other.status == .ok)
    }

    @Test func savingRequiresAValidReceiptOfTheSameUser() async throws {
        let asset = try await upload()
        let document = try JSONDocument(parsing: Array(asset.utf8)).root
        let checksum = try #require(document.text("fileChecksum"))
        let receipt = try #require(document.text("receipt"))
        let other = try JSONDocument(parsing: Array(try await upload([1, 2, 3]).utf8)).root
        let otherChecksum = try #require(other.text("fileChecksum"))
        for wrong in [
            #"{"fileChecksum":"\#(checksum)","size":18}"#,
            #"{"fileChecksum":"\#(checksum)","size":18,"receipt":"AAAA"}"#,
            #"{"fileChecksum":"\#(otherChecksum)","size":18,"receipt":"\#(receipt)"}"#,
        ] {
            let answer = try await save(wrong)
            #expect(answer.text("serverErrorCode") == "BAD_REQUEST", "\(wrong)")
            #expect(answer.text("reason")?.contains("receipt") == true)
        }
        #expect(try await save(asset, as: "bob").text("serverErrorCode") == "BAD_REQUEST")
        #expect(try await save(asset).text("serverErrorCode") == nil)
    }

    /// The receipt contains the size, so a wrong size in a record is harmless and is never shown.
    @Test func anAssetsSizeIsTheSizeOfItsUpload() async throws {
        let asset = try await upload()
        let size = #""size":\#(content.count)"#
        #expect(asset.contains(size))
        let saved = try await save(asset.replacing(size, with: #""size":5"#))
        #expect(try saved.field("file")?["size"]?.int64() == Int64(content.count))
        let without = try await save(asset.replacing("\(size),", with: ""))
        #expect(without.text("serverErrorCode") == "BAD_REQUEST")
    }

    @Test func anAssetWithoutAFreshReceiptCanBeSavedOnlyInItsOwnField() async throws {
        _ = try await save(try await upload())
        let held = try await world.ask("private/records/lookup", #"{"records":[{"recordName":"p"}]}"#)
        let field = try #require(try held.items("records").first?.field("file"))
        let asset = String(decoding: field.rawBytes, as: UTF8.self)
        #expect(try await save(asset, named: "p").text("serverErrorCode") == nil)
        #expect(try await save(asset, named: "other").text("serverErrorCode") == "BAD_REQUEST")
        // With a fresh receipt it may be saved elsewhere.
        let again = try await world.ask(
            "private/assets/rereference",
            #"{"assets":[{"recordName":"p","fieldName":"file"},{"recordName":"p","fieldName":"none"}]}"#
        )
        let found = try again.items("assets")
        #expect(found.last?.text("serverErrorCode") == "NOT_FOUND")
        let first = try #require(found.first)
        let fresh = String(decoding: first.rawBytes, as: UTF8.self)
        #expect(try await save(fresh, named: "other").text("serverErrorCode") == nil)
    }

    @Test func anAddressIsValidOnlyWhileTheRecordContainsTheAsset() async throws {
        _ = try await save(try await upload())
        let address = try await downloadAddress()
        #expect(try await get(address).status == .ok)
        _ = try await save(try await upload([1, 2, 3]))
        #expect(try await get(address).status == .notFound)
        let second = try await downloadAddress()
        let delete = RelayWorld.Operation(kind: "forceDelete", name: "p", type: nil)
        _ = try await world.modify(zone: "_defaultZone", [delete])
        #expect(try await get(second).status == .notFound)
        // Neither another purpose nor an extra or missing letter makes a valid address.
        for wrong in [
            second + "A", String(second.dropLast()), second.replacing("download", with: "upload"),
            try await uploadAddress().replacing("upload", with: "download"),
        ] {
            #expect(try await get(wrong).status.code >= 400, "\(wrong)")
        }
    }

    @Test func publicAssetsCanBeDownloadedWithoutSigningIn() async throws {
        _ = try await save(try await upload(in: "public"), in: "public")
        let response = try await get(try await downloadAddress(as: nil, in: "public"))
        #expect(try bytes(response) == content)
        #expect(response.headers[.accessControlAllowOrigin] == "*")
        #expect(response.headers[.accessControlAllowCredentials] == nil)
    }

    @Test func assetsInAChangeFeedHaveDownloadAddresses() async throws {
        try await world.makeZone("Notes")
        let asset = try await upload()
        let list = #"{"file":{"value":[\#(asset),\#(asset)],"type":"ASSETID_LIST"}}"#
        let create = RelayWorld.Operation(kind: "create", name: "p", type: "Album", fields: list)
        _ = try await world.modify([create])
        let record = try #require(try await world.changes().required("records").elements().first)
        let field = try #require(try record.field("file"))
        let assets = try field.elements()
        #expect(assets.count == 2)
        for asset in assets {
            let address = try #require(asset.text("downloadURL"))
            #expect(try await get(address).status == .ok)
        }
    }

    @Test func anUploadAboveTheSizeLimitIsRefused() async throws {
        var settings = AssetSettings()
        settings.largest = 10
        let relay = world.relay(assets: settings)
        let path = try #require(URLComponents(string: try await uploadAddress())).path
        for (count, status) in [(10, 200), (11, 413)] {
            let body = [UInt8](repeating: 7, count: count)
            let answer = await relay.respond(to: APIRequest(method: .post, path: path, body: body))
            #expect(answer.status.code == status)
        }
    }

    @Test func unusedAssetsAreRemovedAndUsedOnesStay() async throws {
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        _ = try await save(try await upload())
        let unused = try await upload([1, 2, 3])
        let long = TimeSource.system.now()
        #expect(try await world.stores.removeUnusedAssets(of: home, before: long + .seconds(-3600)) == 0)
        #expect(try await world.stores.removeUnusedAssets(of: home, before: long + .seconds(3600)) == 1)
        #expect(try await get(try await downloadAddress()).status == .ok)
        // The receipt is still valid, but the content is gone and has to be uploaded again.
        #expect(try await save(unused, named: "q").text("serverErrorCode") == "BAD_REQUEST")
        let delete = RelayWorld.Operation(kind: "forceDelete", name: "p", type: nil)
        _ = try await world.modify(zone: "_defaultZone", [delete])
        #expect(try await world.stores.removeUnusedAssets(of: home, before: long + .seconds(3600)) == 1)
    }

    /// A schema does not list a share's custom fields.
    @Test func anAssetInAShareIsServedAndNotRemoved() async throws {
        try await world.makeZone("Notes")
        let operation = RelayWorld.Operation(
            kind: "create",
            name: "cloudkit.zoneshare",
            type: "cloudkit.share",
            fields: #"{"picture":{"value":\#(try await upload())}}"#
        )
        #expect(try await world.modify([operation]).status == 200)
        let found = try await world.ask(
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"cloudkit.zoneshare"}]}"#
        )
        let address = try #require(try found.items("records").first?.field("picture")?.text("downloadURL"))
        #expect(try bytes(await get(address)) == content)
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let later = TimeSource.system.now() + .seconds(3600)
        #expect(try await world.stores.removeUnusedAssets(of: home, before: later) == 0)
    }

    @Test(.enabled(if: TestStore.current.keepsFiles)) func aTruncatedFileIsNotServed() async throws {
        let checksum = try #require(try await save(try await upload()).field("file")?.text("fileChecksum"))
        let address = try await downloadAddress()
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let hash = try #require(AssetHash(checksum: checksum))
        let file = try #require(try world.stores.assets(of: home).file(of: hash))
        #expect(truncate(file.path, 5) == 0)
        #expect(try await get(address).status == .internalServerError)
        // Uploading it again restores the file.
        _ = try await save(try await upload())
        #expect(try await get(address).status == .ok)
    }

    /// A new receipt protects content of any age, because the client may no longer have the bytes.
    @Test func aNewReceiptProtectsAnOldAssetFromRemoval() async throws {
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let saved = try #require(try await save(try await upload()).field("file")?.text("fileChecksum"))
        let hash = try #require(AssetHash(checksum: saved))
        let path = try #require(try world.stores.assets(of: home).file(of: hash)).path
        let old = Date(timeIntervalSince1970: 1_000_000)
        try FileManager.default.setAttributes([.modificationDate: old], ofItemAtPath: path)
        let wish = #"{"assets":[{"recordName":"p","fieldName":"file"}]}"#
        let again = try #require(try await world.ask("private/assets/rereference", wish).items("assets").first)
        _ = try await world.modify(
            zone: "_defaultZone",
            [RelayWorld.Operation(kind: "forceDelete", name: "p", type: nil)]
        )
        #expect(
            try await world.stores.removeUnusedAssets(of: home, before: TimeSource.system.now() + .seconds(-3600)) == 0
        )
        let receipt = try #require(again.text("receipt"))
        let checksum = try #require(again.text("fileChecksum"))
        let asset = #"{"fileChecksum":"\#(checksum)","size":\#(content.count),"receipt":"\#(receipt)"}"#
        #expect(try await save(asset, named: "q").text("serverErrorCode") == nil)
    }

    @Test func theAssetsOfADeletedZoneAreRemoved() async throws {
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        try await world.makeZone("Notes")
        let create = RelayWorld.Operation(
            kind: "create",
            name: "p",
            type: "Photo",
            fields: #"{"file":{"value":\#(try await upload())}}"#
        )
        _ = try await world.modify([create])
        let later = TimeSource.system.now() + .seconds(3600)
        #expect(try await world.stores.removeUnusedAssets(of: home, before: later) == 0)
        _ = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        )
        // The zone's rows are removed in the background, when no write is waiting.
        var removed = 0
        try await eventually("the zone's asset to be unused") {
            removed = try await world.stores.removeUnusedAssets(of: home, before: later)
            return removed > 0
        }
        #expect(removed == 1)
    }
}

/// A client that already has an asset gets 304 Not Modified, after the same access checks as for a download.
///
/// RFC 9110, 13.1.2.
@Suite struct ConditionalDownloadTests {
    private let world: RelayWorld

    init() throws { world = try RelayWorld() }

    /// Uploads and saves an asset and returns its download path.
    private func makeAsset() async throws -> String {
        let token = #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"}]}"#
        let upload = try await world.ask("private/assets/upload", token).items("tokens").first?.text("url")
        let uploaded = try await ask(path(of: upload), .post, body: Array("an asset".utf8))
        let asset = try JSONDocument(parsing: uploaded.body).root.required("singleFile").rawBytes
        let fields = #"{"file":{"value":\#(String(decoding: asset, as: UTF8.self))}}"#
        let save = RelayWorld.Operation(kind: "forceUpdate", name: "p", type: "Photo", fields: fields)
        let saved = try await world.modify(zone: "_defaultZone", [save])
        return try path(of: saved.items("records").first?.field("file")?.text("downloadURL"))
    }

    private func path(of address: String?) throws -> String {
        let address = try #require(address)
        return try #require(URLComponents(string: address)).path
    }

    private func ask(
        _ path: String,
        _ method: HTTPRequest.Method = .get,
        _ headers: HTTPFields = [:],
        body: [UInt8] = []
    ) async -> APIResponse {
        await world.relay.respond(to: APIRequest(method: method, path: path, headers: headers, body: body))
    }

    @Test func aMatchingETagIsAnsweredWithNotModified() async throws {
        let path = try await makeAsset()
        let first = await ask(path)
        let tag = try #require(first.headers[.eTag])
        #expect(first.status == .ok && first.file != nil)
        for list in [tag, "W/\(tag)", "*", "\"a\", \(tag)", "\"a\",W/\(tag) ,\"b\""] {
            for method in [HTTPRequest.Method.get, .head] {
                let again = await ask(path, method, [.ifNoneMatch: list, .range: "bytes=0-1"])
                #expect(again.status == .notModified, "\(list)")
                #expect(again.file == nil && again.body.isEmpty)
                #expect(again.headers[.eTag] == tag)
                #expect(again.headers[.cacheControl] == first.headers[.cacheControl])
            }
        }
        for list in ["\"a\"", String(tag.dropLast(2)) + "\"", String(tag.dropFirst().dropLast()), ""] {
            #expect(await ask(path, .get, [.ifNoneMatch: list]).status == .ok, "\(list)")
        }
    }

    @Test func aCallerWithoutReadAccessLearnsNothing() async throws {
        let path = try await makeAsset()
        let first = await ask(path)
        let tag = try #require(first.headers[.eTag])
        let delete = RelayWorld.Operation(kind: "forceDelete", name: "p", type: nil)
        _ = try await world.modify(zone: "_defaultZone", [delete])
        for list in [tag, "*"] {
            let again = await ask(path, .get, [.ifNoneMatch: list])
            #expect(again.status == .notFound)
        }
    }
}
