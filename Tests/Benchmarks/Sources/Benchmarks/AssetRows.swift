import Foundation
import Sockets

/// Uploads and downloads of assets, beside copies of the same file on the same disk.
enum AssetRows {
    /// The asset's size in bytes, the default maximum.
    private static let size = 50 * 1024 * 1024

    /// One upload at a time, on the disk when it is answered, beside a copy with fsync.
    static func upload(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        let content = Self.content()
        let (source, target) = (bench.path("asset"), bench.path("asset-copy"))
        try Data(content).write(to: URL(fileURLWithPath: source))
        let connection = try HTTPConnection(to: relay.endpoint)
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            // Build the request before the measurement: copying 50 MiB in the client is not part of an upload.
            let request = relay.uploadRequest(content, to: try relay.uploadAddress(on: connection))
            return try Self.megabytesPerSecond { _ = try relay.upload(request, on: connection) }
        } floor: {
            try Self.megabytesPerSecond { try Self.copy(source, to: target, flushing: true) }
        }
        bench.report.add(
            Finding(
                "asset-upload",
                "an asset of 50 MiB uploaded, on the disk when it is answered",
                unit: "MB/s",
                paired,
                against: "a copy of the same file, flushed",
                target: .ratioAtLeast(0.5)
            )
        )
    }

    /// One download at a time into a file, beside a copy; both read from the page cache.
    static func download(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        let content = Self.content()
        let (source, target) = (bench.path("asset"), bench.path("asset-copy"))
        try Data(content).write(to: URL(fileURLWithPath: source))
        let connection = try HTTPConnection(to: relay.endpoint)
        let request = relay.uploadRequest(content, to: try relay.uploadAddress(on: connection))
        let uploaded = try relay.upload(request, on: connection)
        let path = try relay.save(uploaded, on: connection)
        var toNowhere: [Double] = []
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            toNowhere.append(try Self.megabytesPerSecond { try relay.fetch(path, to: nil, size) })
            return try Self.megabytesPerSecond { try relay.fetch(path, to: target, size) }
        } floor: {
            try Self.megabytesPerSecond { try Self.copy(source, to: target, flushing: false) }
        }
        bench.report.add(
            Finding(
                "asset-download",
                "an asset of 50 MiB downloaded to a file",
                unit: "MB/s",
                paired,
                against: "a copy of the same file",
                target: .ratioAtLeast(0.5)
            )
        )
        bench.report.add(
            Finding("asset-download", "the same, read and dropped", unit: "MB/s", relay: toNowhere.median)
        )
    }

    private static func megabytesPerSecond(_ body: () throws -> Void) rethrows -> Double {
        let start = Monotonic.nanoseconds
        try body()
        return Double(size) / 1e6 / Monotonic.seconds(since: start)
    }

    /// Copies like `cp --reflink=never`, in blocks of 256 KiB, without the time to start `cp`.
    private static func copy(_ source: String, to target: String, flushing: Bool) throws {
        let from = open(source, O_RDONLY | O_CLOEXEC)
        let into = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard from >= 0, into >= 0 else { throw LoadError.missing("Cannot copy \(source).") }
        defer {
            close(from)
            close(into)
        }
        let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
        defer { space.deallocate() }
        while true {
            let count = read(from, space.baseAddress, space.count)
            guard count >= 0, count == 0 || write(into, space.baseAddress, count) == count else {
                throw LoadError.missing("Cannot copy \(source).")
            }
            if count == 0 { break }
        }
        guard !flushing || fsync(into) == 0 else { throw LoadError.missing("Cannot flush \(target).") }
    }

    /// Incompressible bytes.
    private static func content() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
            let words = UnsafeMutableRawBufferPointer(bytes).bindMemory(to: UInt64.self)
            for index in words.indices { words[index] = generator.next() }
            count = size
        }
    }
}

extension Relay {
    private struct Tokens: Decodable {
        struct Token: Decodable { var url: String }
        var tokens: [Token]
    }

    private struct Uploaded: Decodable {
        struct File: Codable {
            var fileChecksum: String
            var size: Int
            var receipt: String
        }
        var singleFile: File
    }

    private struct Saved: Decodable {
        struct Record: Decodable { var fields: [String: Field] }
        struct Field: Decodable { var value: Value }
        struct Value: Decodable { var downloadURL: String }
        var records: [Record]
    }

    private func ask<Answer: Decodable>(
        _ operation: String,
        _ body: String,
        on connection: HTTPConnection,
        as type: Answer.Type
    ) throws -> Answer {
        try connection.exchange(call(operation, body).bytes) { reply in
            try reply.mustBeSuccess()
            return try JSONDecoder().decode(type, from: Data(reply.body))
        }
    }

    /// Returns the path for an upload.
    fileprivate func uploadAddress(on connection: HTTPConnection) throws -> String {
        let body = #"{"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#
        let tokens = try ask("assets/upload", body, on: connection, as: Tokens.self).tokens
        return try Self.path(tokens.first?.url)
    }

    fileprivate func uploadRequest(_ content: [UInt8], to path: String) -> HTTPRequest {
        HTTPRequest("POST", path, to: endpoint, body: content)
    }

    /// Uploads and returns the asset value for a record.
    fileprivate func upload(_ request: HTTPRequest, on connection: HTTPConnection) throws -> String {
        try connection.exchange(request.bytes) { reply in
            try reply.mustBeSuccess()
            let file = try JSONDecoder().decode(Uploaded.self, from: Data(reply.body)).singleFile
            return String(decoding: try JSONEncoder().encode(file), as: UTF8.self)
        }
    }

    /// Saves a record with the asset and returns the path of its download.
    fileprivate func save(_ asset: String, on connection: HTTPConnection) throws -> String {
        let record = #"{"recordName":"photo","recordType":"Photo","fields":{"file":{"value":\#(asset)}}}"#
        let body = #"{"operations":[{"operationType":"create","record":\#(record)}]}"#
        let records = try ask("records/modify", body, on: connection, as: Saved.self).records
        return try Self.path(records.first?.fields["file"]?.value.downloadURL)
    }

    /// Downloads into a file, or discards the bytes.
    fileprivate func fetch(_ path: String, to file: String?, _ size: Int) throws {
        let socket = try Socket.connect(to: endpoint, blocks: true)
        socket.limitReads(seconds: 60)
        let target = try file.map { file in
            let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw LoadError.missing("Cannot write \(file).") }
            return descriptor
        }
        defer { if let target { close(target) } }
        try socket.write(HTTPRequest("GET", path, to: endpoint).bytes)
        let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
        defer { space.deallocate() }
        var (head, received): ([UInt8]?, Int) = ([], 0)
        while received < size {
            guard case .bytes(let count) = socket.read(into: space) else {
                throw LoadError.peer("The relay ended a download after \(received) bytes.")
            }
            var piece = UnsafeRawBufferPointer(rebasing: space[..<count])
            if head != nil {
                head?.append(contentsOf: piece)
                guard let whole = head, let length = whole.withUnsafeBytes({ HTTPHead.length(in: $0) }) else {
                    continue
                }
                guard whole.starts(with: Array("HTTP/1.1 200".utf8)) else {
                    throw LoadError.peer(String(decoding: whole.prefix(500), as: UTF8.self))
                }
                piece = UnsafeRawBufferPointer(rebasing: piece.suffix(whole.count - length))
                head = nil
            }
            received += piece.count
            if let target, write(target, piece.baseAddress, piece.count) != piece.count {
                throw LoadError.missing("Cannot write all of a download.")
            }
        }
    }

    private static func path(_ address: String?) throws -> String {
        guard let path = address.flatMap({ URLComponents(string: $0) })?.path else {
            throw LoadError.missing("The relay named no address.")
        }
        return path
    }
}
