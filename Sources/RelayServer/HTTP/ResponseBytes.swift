import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayAPI

/// Encodes a response's head and body into one buffer, for one system call.
enum ResponseBytes {
    /// What happens to the connection after the response.
    enum Persistence {
        case keepAlive
        /// With HTTP/1.0, a connection stays open only if the response says so.
        case keepAliveHTTP10
        case close
        /// Like `close`, but also names `Upgrade`, which a 426 response must do (RFC 9110, 7.8).
        case closeUpgradeRequired
    }

    /// Returns the response that switches to WebSocket.
    static func switching(_ acceptance: WebSocketHandshake.Acceptance) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.reserveCapacity(256)
        buffer.writeStaticString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        buffer.writeStaticString("Sec-WebSocket-Accept: ")
        buffer.writeString(acceptance.accept)
        if acceptance.namesSubprotocol {
            buffer.writeStaticString("\r\nSec-WebSocket-Protocol: ")
            buffer.writeString(WebSocketHandshake.subprotocol)
        }
        buffer.writeStaticString("\r\n\r\n")
        return buffer
    }

    /// Returns the complete response; `date` is the value of the `Date` field.
    ///
    /// `omitsBody` is set for HEAD requests: the head describes a body that does not follow.
    static func write(
        _ response: APIResponse,
        persistence: Persistence,
        date: String,
        omitsBody: Bool,
        allocator: ByteBufferAllocator
    ) -> ByteBuffer {
        let sendsBody = hasBody(response) && !omitsBody
        var buffer = allocator.buffer(capacity: 512 + (sendsBody ? response.bodyLength : 0))
        writeHead(response, persistence: persistence, date: date, into: &buffer)
        if sendsBody { _ = response.withBody { buffer.writeBytes($0) } }
        return buffer
    }

    /// Returns whether a response with this status can have a body.
    static func hasBody(_ response: APIResponse) -> Bool {
        let status = response.status
        return !(status.kind == .informational || status.code == 204 || status.code == 304)
    }

    /// Writes everything before the body, including the empty line.
    static func writeHead(
        _ response: APIResponse,
        persistence: Persistence,
        date: String,
        into buffer: inout ByteBuffer
    ) {
        writeStatusLine(response.status, into: &buffer)
        if let commonFields = response.commonFields {
            buffer.writeStaticString(CommonHeaderFields.start)
            commonFields.id.withText { _ = buffer.writeBytes($0) }
            if let token = commonFields.webToken {
                buffer.writeStaticString(CommonHeaderFields.beforeWebToken)
                buffer.writeString(token)
            }
            buffer.writeStaticString("\r\n")
        }
        for field in response.otherHeaders where !isOurs(field.name) {
            buffer.writeString(field.name.rawName)
            buffer.writeStaticString(": ")
            buffer.writeString(field.value)
            buffer.writeStaticString("\r\n")
        }
        if hasBody(response) {
            buffer.writeStaticString("Content-Length: ")
            buffer.writeString(String(response.sentLength))
            buffer.writeStaticString("\r\n")
        }
        buffer.writeStaticString("Date: ")
        buffer.writeString(date)
        switch persistence {
        case .keepAlive: buffer.writeStaticString("\r\n\r\n")
        case .keepAliveHTTP10: buffer.writeStaticString("\r\nConnection: keep-alive\r\n\r\n")
        case .close: buffer.writeStaticString("\r\nConnection: close\r\n\r\n")
        case .closeUpgradeRequired: buffer.writeStaticString("\r\nConnection: Upgrade, close\r\n\r\n")
        }
    }

    private static func writeStatusLine(_ status: HTTPResponse.Status, into buffer: inout ByteBuffer) {
        if status.code == 200 {
            buffer.writeStaticString("HTTP/1.1 200 OK\r\n")
            return
        }
        let known = HTTPResponseStatus(statusCode: status.code).reasonPhrase
        let reason = status.reasonPhrase.isEmpty ? known : status.reasonPhrase
        buffer.writeString("HTTP/1.1 \(status.code) \(reason)\r\n")
    }

    /// Framing fields are written only here: an endpoint that set them could break the framing.
    private static func isOurs(_ name: HTTPField.Name) -> Bool {
        name == .contentLength || name == .connection || name == .transferEncoding || name == .date
    }
}

/// The text of the `Date` field, formatted at most once per second (RFC 9110, 5.6.7).
package struct DateText {
    private var second: Int64 = .min
    private(set) var text = ""

    /// - Parameter second: Whole seconds since 1970-01-01 UTC.
    mutating func update(toSecond second: Int64) {
        guard second != self.second else { return }
        self.second = second
        text = Self.format(second)
    }

    package static func format(_ second: Int64) -> String {
        let days = Int(second.quotientAndFloor(86_400).quotient)
        let rest = Int(second.quotientAndFloor(86_400).remainder)
        let (year, month, day) = civil(days)
        let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }
        let weekday = weekdays[((days % 7) + 7) % 7]
        let time = "\(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60))"
        return "\(weekday), \(two(day)) \(months[month - 1]) \(year) \(time) GMT"
    }

    /// Returns the date of a day counted from 1970-01-01, using the 400-year cycle that begins on 1 March.
    private static func civil(_ days: Int) -> (Int, Int, Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }
}

extension Int64 {
    fileprivate func quotientAndFloor(_ divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let remainder = ((self % divisor) + divisor) % divisor
        return ((self - remainder) / divisor, remainder)
    }
}
