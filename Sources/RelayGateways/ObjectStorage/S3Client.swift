package import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
package import Records
import RelayCore

/// Objects in S3-compatible storage: stored, read, listed and deleted.
///
/// Every body is sent with its SHA-256, which the service compares, so a damaged upload is refused. A request that meets
/// an error of the network or of the service is repeated a few times.
package struct S3Client: Sendable {
    /// An object as a listing shows it.
    package struct Object: Hashable, Sendable {
        /// The name below the address's prefix.
        package var name: String
        package var size: Int64
    }

    /// Larger files are sent in parts of this size, or larger: there may be at most 10,000 parts, and one request
    /// carries at most 5 GB.
    package static let partSize: Int64 = 64 * 1024 * 1024

    package let address: S3Address
    private let settings: S3Settings
    private let client: HTTPClient
    private let now: @Sendable () -> Timestamp
    private let pauses: [Duration]
    private let partSize: Int64

    /// - Parameters:
    ///   - address: the bucket and the prefix.
    ///   - settings: the service and the keys.
    ///   - client: the HTTP client, which the caller shuts down.
    ///   - now: returns the time, which is part of each signature.
    ///   - pauses: the time before each repetition of a request that failed.
    ///   - partSize: the size of the parts of large files.
    package init(
        _ address: S3Address,
        _ settings: S3Settings,
        client: HTTPClient,
        now: @escaping @Sendable () -> Timestamp,
        pauses: [Duration] = [.seconds(1), .seconds(4), .seconds(15)],
        partSize: Int64 = Self.partSize
    ) {
        self.address = address
        self.settings = settings
        self.client = client
        self.now = now
        self.pauses = pauses
        self.partSize = partSize
    }

    // MARK: Store

    /// Stores bytes under a name, in place of what it has.
    package func put(_ bytes: [UInt8], as name: String) async throws(S3Failure) {
        _ = try await send("PUT", name, body: .bytes(bytes))
    }

    /// Stores a file under a name, in place of what it has; returns when the service has all of it.
    package func put(file path: String, size: Int64, as name: String) async throws(S3Failure) {
        guard size > partSize else {
            _ = try await send("PUT", name, body: .file(try FilePart(path, 0..<size)))
            return
        }
        let started = try await send("POST", name, [("uploads", "")])
        guard let id = S3Listing.value(of: "UploadId", in: started.text) else {
            throw S3Failure(
                .refused,
                "\(address) did not start the upload of a large file: its answer has no UploadId."
            )
        }
        do throws(S3Failure) {
            var tags: [String] = []
            let length = max(partSize, (size + 9_999) / 10_000)
            for start in stride(from: 0, to: size, by: Int64.Stride(length)) {
                let part = try FilePart(path, start..<min(size, start + length))
                let query = [("partNumber", "\(tags.count + 1)"), ("uploadId", id)]
                let answer = try await send("PUT", name, query, body: .file(part))
                tags.append(answer.tag ?? "")
            }
            let parts = tags.enumerated().map { "<Part><PartNumber>\($0 + 1)</PartNumber><ETag>\($1)</ETag></Part>" }
            let list = "<CompleteMultipartUpload>\(parts.joined())</CompleteMultipartUpload>"
            let ended = try await send("POST", name, [("uploadId", id)], body: .bytes(Array(list.utf8)))
            // The service may find out that it failed after it has said 200.
            if let code = S3Listing.value(of: "Code", in: ended.text) {
                throw S3Failure(.unavailable, "\(address) could not join the parts of a large file: \(code).")
            }
        } catch {
            // The parts cost money until they are removed.
            _ = try? await send("DELETE", name, [("uploadId", id)])
            throw error
        }
    }

    // MARK: Read

    /// Reads a whole object, of at most `limit` bytes.
    package func bytes(of name: String, limit: Int) async throws(S3Failure) -> [UInt8] {
        try await send("GET", name, limit: limit).body
    }

    /// Writes an object to a new file, and returns the SHA-256 of its content in hex.
    package func download(_ name: String, to path: String) async throws(S3Failure) -> String {
        try await repeating { () async throws(S3Failure) in
            try await downloadOnce(name, to: path)
        }
    }

    /// Returns the objects whose names below the prefix begin with `start`, in the order of their names.
    package func list(_ start: String) async throws(S3Failure) -> [Object] {
        var objects: [Object] = []
        var continuation: String?
        repeat {
            var query = [("list-type", "2"), ("prefix", address.key(start))]
            if let continuation { query.append(("continuation-token", continuation)) }
            let page = S3Listing(try await send("GET", nil, query, limit: 4 * 1024 * 1024).text)
            let own = address.prefix.isEmpty ? 0 : address.prefix.count + 1
            objects += page.objects.map { Object(name: String($0.key.dropFirst(own)), size: $0.size) }
            continuation = page.next
        } while continuation != nil
        return objects
    }

    // MARK: Delete

    /// Deletes an object; one that does not exist is no error.
    package func delete(_ name: String) async throws(S3Failure) { _ = try await send("DELETE", name) }

    // MARK: Requests

    private enum Body {
        case none
        case bytes([UInt8])
        case file(FilePart)

        var hash: String {
            switch self {
            case .none: S3Signature.hash("")
            case .bytes(let bytes): Hex.encode(SHA256.hash(data: bytes))
            case .file(let part): part.hash
            }
        }
    }

    private struct Answer {
        var body: [UInt8]
        var tag: String?

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    private func send(
        _ method: String,
        _ name: String?,
        _ query: [(String, String)] = [],
        body: Body = .none,
        limit: Int = 1024 * 1024
    ) async throws(S3Failure) -> Answer {
        try await repeating { () async throws(S3Failure) in
            let request = request(method, name, query, body)
            do {
                let response = try await client.send(request, timeout: .hours(1))
                try await check(response, name)
                let body = try await response.body.collect(upTo: limit)
                return Answer(body: Array(buffer: body), tag: response.headers.first(name: "etag"))
            } catch {
                throw failure(error)
            }
        }
    }

    private func downloadOnce(_ name: String, to path: String) async throws(S3Failure) -> String {
        do {
            let response = try await client.send(request("GET", name, [], .none), timeout: .hours(1))
            try await check(response, name)
            guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]),
                let file = FileHandle(forWritingAtPath: path)
            else { throw S3Failure(.local, "\(path) cannot be written: \(String(cString: strerror(errno))).") }
            defer { try? file.close() }
            var hasher = SHA256()
            for try await piece in response.body {
                piece.withUnsafeReadableBytes { hasher.update(bufferPointer: $0) }
                do {
                    try file.write(contentsOf: Data(piece.readableBytesView))
                } catch {
                    throw S3Failure(.local, "\(path) cannot be written: \(error.localizedDescription)")
                }
            }
            guard fsync(file.fileDescriptor) == 0 else {
                throw S3Failure(.local, "\(path) cannot be written: \(String(cString: strerror(errno))).")
            }
            return Hex.encode(hasher.finalize())
        } catch {
            throw failure(error)
        }
    }

    private func request(
        _ method: String,
        _ name: String?,
        _ query: [(String, String)],
        _ body: Body
    ) -> HTTPClientRequest {
        let place = settings.place(of: address.bucket)
        let path = name.map { "\(place.path)/\(address.key($0))" } ?? (place.path.isEmpty ? "/" : place.path)
        let text = S3Signature.text(of: query)
        var request = HTTPClientRequest(url: place.origin + path + (text.isEmpty ? "" : "?\(text)"))
        request.method = HTTPMethod(rawValue: method)
        let hash = body.hash
        var headers = [("host", Self.host(of: place.origin)), ("x-amz-content-sha256", hash)]
        if let token = settings.sessionToken { headers.append(("x-amz-security-token", token)) }
        let signature = S3Signature(method: method, path: path, query: query, headers: headers, bodyHash: hash)
        let time = Self.time(now())
        for header in headers where header.0 != "host" { request.headers.add(name: header.0, value: header.1) }
        request.headers.add(name: "x-amz-date", value: time)
        request.headers.add(name: "authorization", value: signature.authorization(settings, time: time))
        switch body {
        case .none: break
        case .bytes(let bytes): request.body = .bytes(ByteBuffer(bytes: bytes))
        case .file(let part): request.body = .stream(part, length: .known(Int64(part.range.count)))
        }
        return request
    }

    /// The header `host` as the library sends it: without the port if it is the scheme's own.
    private static func host(of origin: String) -> String {
        guard let url = URL(string: origin), let host = url.host else { return origin }
        let name = host.contains(":") ? "[\(host)]" : host
        guard let port = url.port, port != (url.scheme == "http" ? 80 : 443) else { return name }
        return "\(name):\(port)"
    }

    private static func time(_ now: Timestamp) -> String {
        let date = Date(timeIntervalSince1970: Double(now.milliseconds / 1000))
        return date.formatted(.iso8601).replacing("-", with: "").replacing(":", with: "")
    }

    // MARK: Failures

    private func repeating<Value>(
        _ body: () async throws(S3Failure) -> Value
    ) async throws(S3Failure) -> Value {
        for pause in pauses {
            do throws(S3Failure) { return try await body() } catch {
                guard error.code == .unavailable else { throw error }
                guard (try? await Task.sleep(for: pause)) != nil else { throw error }
            }
        }
        return try await body()
    }

    private func check(_ response: HTTPClientResponse, _ name: String?) async throws {
        guard !(200..<300).contains(response.status.code) else { return }
        let body = try? await response.body.collect(upTo: 64 * 1024)
        let text = body.map { String(buffer: $0) } ?? ""
        let code = S3Listing.value(of: "Code", in: text) ?? "\(response.status.code)"
        let words = "\(address) answers \(code)\(S3Listing.value(of: "Message", in: text).map { ": \($0)" } ?? "")"
        switch response.status.code {
        case 404:
            let what =
                code == "NoSuchBucket"
                ? "There is no bucket \(address.bucket)" : "\(address) has no \(name ?? "objects")"
            throw S3Failure(.missing, "\(what).")
        case 401, 403:
            throw S3Failure(
                .denied,
                "\(words). Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of that key."
            )
        case 429, 500...: throw S3Failure(.unavailable, "\(words).")
        case 301, 307,
            400 where code.hasSuffix("Redirect") || code.hasPrefix("AuthorizationHeader"):
            throw S3Failure(.settings, "\(words). Set AWS_REGION to the bucket's region.")
        default: throw S3Failure(.refused, "\(words).")
        }
    }

    private func failure(_ error: any Error) -> S3Failure {
        (error as? S3Failure) ?? S3Failure(.unavailable, "\(address) cannot be reached: \(reason(for: error)).")
    }
}

/// A range of a file as a request's body, with its SHA-256.
struct FilePart: AsyncSequence, Sendable {
    let path: String
    let range: Range<Int64>
    /// In hex.
    private(set) var hash = ""

    private static let chunk = 256 * 1024

    init(_ path: String, _ range: Range<Int64>) throws(S3Failure) {
        self.path = path
        self.range = range
        var hasher = SHA256()
        var reader = Iterator(part: self)
        do {
            while let buffer = try reader.read() { buffer.withUnsafeReadableBytes { hasher.update(bufferPointer: $0) } }
        } catch {
            throw (error as? S3Failure) ?? S3Failure(.local, "\(path) cannot be read: \(error)")
        }
        hash = Hex.encode(hasher.finalize())
    }

    init(wholeFile path: String) throws(S3Failure) {
        guard let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? NSNumber else {
            throw S3Failure(.local, "\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        try self.init(path, 0..<size.int64Value)
    }

    func makeAsyncIterator() -> Iterator { Iterator(part: self) }

    struct Iterator: AsyncIteratorProtocol {
        private let part: FilePart
        private var position: Int64
        private var file: FileHandle?

        init(part: FilePart) {
            self.part = part
            position = part.range.lowerBound
        }

        mutating func next() async throws -> ByteBuffer? { try read() }

        mutating func read() throws -> ByteBuffer? {
            guard position < part.range.upperBound else { return nil }
            let file = try file ?? opened()
            let most = Int(Swift.min(Int64(FilePart.chunk), part.range.upperBound - position))
            guard let data = try file.read(upToCount: most), !data.isEmpty else {
                throw S3Failure(.local, "\(part.path) became shorter while it was read.")
            }
            position += Int64(data.count)
            return ByteBuffer(bytes: data)
        }

        private mutating func opened() throws -> FileHandle {
            guard let opened = FileHandle(forReadingAtPath: part.path) else {
                throw S3Failure(.local, "\(part.path) cannot be read: \(String(cString: strerror(errno))).")
            }
            try opened.seek(toOffset: UInt64(position))
            file = opened
            return opened
        }
    }
}

/// A page of a listing.
///
/// A small reader of a few known elements, since the names in it have no characters that XML escapes, and Foundation's
/// reader of XML would add a library to the program.
package struct S3Listing {
    package var objects: [(key: String, size: Int64)] = []
    /// Where the next page begins; `nil` on the last.
    package var next: String?

    package init(_ text: String) {
        for part in text.components(separatedBy: "<Contents>").dropFirst() {
            guard let key = Self.value(of: "Key", in: part),
                let size = Self.value(of: "Size", in: part).flatMap(Int64.init)
            else { continue }
            objects.append((key, size))
        }
        if Self.value(of: "IsTruncated", in: text) == "true" {
            next = Self.value(of: "NextContinuationToken", in: text)
        }
    }

    /// Returns the text of the first element with this name.
    static func value(of element: String, in text: String) -> String? {
        guard let start = text.range(of: "<\(element)>"),
            let end = text.range(of: "</\(element)>", range: start.upperBound..<text.endIndex)
        else { return nil }
        let escapes = [
            ("&quot;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&amp;", "&"),
        ]
        return escapes.reduce(String(text[start.upperBound..<end.lowerBound])) { $0.replacing($1.0, with: $1.1) }
    }
}
