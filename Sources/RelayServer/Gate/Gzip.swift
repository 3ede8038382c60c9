import CZlib
import HTTPTypes
import RelayAPI

/// Bodies in gzip, for clients that ask.
///
/// See Wire.md, "Headers and bodies", and RFC 9110, 12.5.3.
enum Gzip {
    /// Below this a body is sent as it is: the head would outweigh what is saved.
    private static let leastBytes = 1024
    /// Above this it is too: whatever is computed here holds up every connection of the loop.
    private static let mostBytes = 1024 * 1024

    /// The answer as `request` would have it: in gzip where that is asked for and worth it.
    static func encoded(_ response: APIResponse, for request: APIRequest) -> APIResponse {
        guard !response.isStreamed, (leastBytes...mostBytes).contains(response.bodyLength),
            let accepted = request.headers[.acceptEncoding], allows(accepted),
            response.headers[.contentEncoding] == nil, isWorthIt(response.headers[.contentType]),
            let body = compress(response.body)
        else { return response }
        var response = response
        response.body = body
        response.otherHeaders[.contentEncoding] = "gzip"
        let vary = response.otherHeaders[.vary]
        response.otherHeaders[.vary] = vary.map { $0 + ", Accept-Encoding" } ?? "Accept-Encoding"
        return response
    }

    private static func isWorthIt(_ type: String?) -> Bool {
        guard let type else { return false }
        return type.hasPrefix("application/json") || type.hasPrefix("text/")
    }

    /// Whether an `Accept-Encoding` names gzip, or anything, without refusing it by a weight of zero.
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

    /// `nil` where it would not get smaller.
    static func compress(_ body: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        // 15 bits of window, and 16 for gzip's own framing; the fastest level takes nearly all there is to be had in JSON.
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
            // Room for less than the body: what does not fit is not worth it.
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
