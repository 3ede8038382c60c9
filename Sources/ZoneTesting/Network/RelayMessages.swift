import Dispatch
import Foundation
import HTTPTypes
import Records
import RelayAPI
import ZoneKit

extension RelayRequest {
    /// The scope of the database that the request changes; `nil` if it changes no records or zones.
    var changesRecords: DatabaseScope? {
        let isChange = ["records/modify", "zones/modify", "records/accept", "records/move"].contains {
            path.hasSuffix($0)
        }
        guard method == .post, isChange else { return nil }
        return path.contains("/public/") && !path.hasSuffix("records/accept") ? .public : .private
    }
}

extension APIRequest {
    /// Creates the request that a socket would receive.
    init(_ request: RelayRequest) {
        var headers = HTTPFields()
        for (name, value) in request.headers {
            guard let name = HTTPField.Name(name) else { continue }
            headers[name] = value
        }
        self.init(
            method: request.method == .get ? .get : .post,
            path: request.path,
            query: request.query.isEmpty ? nil : request.query,
            headers: headers,
            body: request.content
        )
    }
}

extension RelayResponse {
    /// Creates the response that a socket would receive.
    init(_ answer: APIResponse) {
        self.init(
            status: answer.status.code,
            headers: answer.headers.map { (name: $0.name.canonicalName, value: $0.value) },
            body: Self.body(of: answer)
        )
    }

    /// Returns the body, which may be in a file.
    private static func body(of answer: APIResponse) -> [UInt8] {
        if let parts = answer.parts, answer.file == nil { return bytes(of: parts) }
        guard let file = answer.file else { return answer.body }
        return bytes(of: file)
    }

    private static func bytes(of parts: any BodyParts) -> [UInt8] {
        var bytes: [UInt8] = []
        while let part = try? parts.next() {
            switch part {
            case .bytes(let piece): bytes += piece
            case .file(let file): bytes += Self.bytes(of: file)
            case .later:
                let isReady = DispatchSemaphore(value: 0)
                parts.whenReady { isReady.signal() }
                isReady.wait()
            }
        }
        return bytes
    }

    private static func bytes(of file: FileBody) -> [UInt8] {
        guard let handle = FileHandle(forReadingAtPath: file.path) else { return [] }
        defer { try? handle.close() }
        try? handle.seek(toOffset: UInt64(file.offset))
        let data = try? handle.read(upToCount: Int(file.length))
        return [UInt8](data ?? Data())
    }
}
