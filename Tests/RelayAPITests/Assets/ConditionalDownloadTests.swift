import Foundation
import HTTPTypes
import RelayAPI
import Testing
import Wire

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
