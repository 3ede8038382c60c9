import CZlib
import HTTPTypes
import RelayAPI

/// Compresses response bodies for clients that accept gzip.
///
/// See Wire.md, "Headers and bodies", and RFC 9110, 12.5.3.
enum Gzip {
    /// Smaller bodies are not compressed: the header fields would outweigh the savings.
    private static let minimumBytes = 1024
    /// Larger bodies are not compressed: compression blocks every connection of the event loop.
    private static let maximumBytes = 1024 * 1024

    /// Returns the response, compressed if the request accepts gzip and the body is suitable.
    static func encoded(_ response: APIResponse, for request: APIRequest) -> APIResponse {
        guard !response.isStreamed, (minimumBytes...maximumBytes).contains(response.bodyLength),
            let accepted = request.headers[.acceptEncoding], allows(accepted),
            response.headers[.contentEncoding] == nil, isCompressible(response.headers[.contentType]),
            let body = compress(response.body)
        else { return response }
        var response = response
        response.body = body
        response.otherHeaders[.contentEncoding] = "gzip"
        let vary = response.otherHeaders[.vary]
        response.otherHeaders[.vary] = vary.map { $0 + ", Accept-Encoding" } ?? "Accept-Encoding"
        return response
    }

    private static func isCompressible(_ type: String?) -> Bool {
        guard let type else { return false }
        return type.hasPrefix("application/json") || type.hasPrefix("text/")
    }

    /// Returns whether an `Accept-Encoding` value names gzip or `*` with a weight above 0.
    static func allows(_ field: String) -> Bool {
        var forAny = false
        for item in field.lowercased().split(separator: ",") {
            let parts = item.split(separator: ";").map { $0.trimmingBlanks() }
            guard let name = parts.first else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
            if name == "gzip" || name == "x-gzip" { return weight > 0 }
            if name == "*" { forAny = weight > 0 }
        }
        return forAny
    }

    /// Returns `nil` if the result would not be smaller.
    static func compress(_ body: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        // 15 bits of window, plus 16 for gzip framing; the fastest level achieves nearly the best compression of JSON.
        let start = deflateInit2_(
            &stream,
            Z_BEST_SPEED,
            Z_DEFLATED,
            15 + 16,
            8,
            Z_DEFAULT_STRATEGY,
            zlibVersion(),
            Int32(MemoryLayout<z_stream>.size)
        )
        guard start == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        var body = body
        let compressed = body.withUnsafeMutableBufferPointer { input in
            // The buffer is smaller than needed for incompressible data: a result that does not fit is not used.
            [UInt8](unsafeUninitializedCapacity: input.count) { output, count in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                count = deflate(&stream, Z_FINISH) == Z_STREAM_END ? output.count - Int(stream.avail_out) : 0
            }
        }
        return compressed.isEmpty ? nil : compressed
    }
}
