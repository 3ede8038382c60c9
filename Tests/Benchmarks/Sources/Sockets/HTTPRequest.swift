/// The bytes of a request, encoded once and sent many times.
package struct HTTPRequest: Sendable {
    package var bytes: [UInt8]

    package init(
        _ method: String,
        _ target: String,
        to endpoint: Endpoint,
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(endpoint.host)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if method == "POST" { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        bytes = Array((head + "\r\n").utf8) + body
    }
}

/// A request with numbers that are replaced in place for each sending.
///
/// Each number replaces the text `################` with 16 hexadecimal digits, so that lengths never change and
/// sending needs no encoding.
package struct NumberedRequest: Sendable {
    package static let mark = "################"

    package private(set) var bytes: [UInt8]
    private var places: [Int] = []

    package init(_ request: HTTPRequest) {
        bytes = request.bytes
        let mark = Array(Self.mark.utf8)
        var index = 0
        while index + mark.count <= bytes.count {
            if bytes[index] == mark[0], bytes[index..<index + mark.count].elementsEqual(mark) {
                places.append(index)
                index += mark.count
            } else {
                index += 1
            }
        }
    }

    /// Writes numbers from `first` on into the placeholders, in order.
    package mutating func number(from first: Int) {
        let digits: StaticString = "0123456789abcdef"
        for (offset, place) in places.enumerated() {
            var rest = UInt64(first + offset)
            for position in stride(from: place + 15, through: place, by: -1) {
                bytes[position] = digits.utf8Start[Int(rest & 15)]
                rest >>= 4
            }
        }
    }

    /// How many numbers each sending uses.
    package var count: Int { places.count }
}
