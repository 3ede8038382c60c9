package import HTTPTypes
import Records

/// The credentials of a request, not decoded yet; found in one pass over its query and one over its header fields.
struct PresentedCredentials: Sendable {
    /// Percent-encoded.
    ///
    /// `nil` if absent or empty.
    var apiToken: String?
    /// Percent-encoded.
    ///
    /// `nil` if absent or empty.
    var webToken: String?
    /// From `Authorization: Bearer`; not percent-encoded.
    var bearer: String?
    var signature = SigningHeaders()
    var deviceID: String?
    var host: String?
    /// The origin of the browser page that sends the request.
    var origin: String?
    /// Whether a credential occurs twice; such a request is refused because it is unclear which one is meant.
    var isAmbiguous = false

    init(_ head: RequestHead.Content) {
        if let query = head.query { read(query: query) }
        for field in head.headers { read(field) }
    }

    private mutating func read(query: String) {
        var query = query
        query.withUTF8 { bytes in
            for part in bytes.split(separator: UInt8(ascii: "&")) {
                if let value = Self.value(of: "ckAPIToken=", in: part) {
                    note(apiToken)
                    apiToken = value.isEmpty ? nil : value
                } else if let value = Self.value(of: "ckWebAuthToken=", in: part) {
                    note(webToken)
                    webToken = value.isEmpty ? nil : value
                }
            }
        }
    }

    private static func value(of name: StaticString, in part: Slice<UnsafeBufferPointer<UInt8>>) -> String? {
        let start = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        guard part.starts(with: start) else { return nil }
        return String(decoding: part.dropFirst(start.count), as: UTF8.self)
    }

    private mutating func read(_ field: HTTPField) {
        switch field.name.canonicalName {
        case "host": host = field.value
        case "origin": origin = field.value
        case "authorization": readBearer(field.value)
        case "x-zonecast-device-id": deviceID = field.value
        case "x-apple-cloudkit-request-keyid":
            note(signature.keyID)
            signature.keyID = field.value
        case "x-apple-cloudkit-request-iso8601date":
            note(signature.date)
            signature.date = field.value
        case "x-apple-cloudkit-request-signaturev1":
            note(signature.signature)
            signature.signature = field.value
        default: break
        }
    }

    /// Called with the previous value before a credential is set.
    private mutating func note(_ earlier: String?) {
        if earlier != nil { isAmbiguous = true }
    }

    private mutating func readBearer(_ value: String) {
        guard value.utf8.count > 7, value.prefix(7).lowercased() == "bearer " else { return }
        bearer = String(value.dropFirst(7).drop { $0 == " " })
    }
}

/// The three headers of a signed request.
///
/// See Wire.md, "Server-to-server keys".
struct SigningHeaders: Sendable {
    var keyID: String?
    var date: String?
    var signature: String?

    var isPresent: Bool { keyID != nil || date != nil || signature != nil }
}

extension HTTPField.Name {
    /// The header with a new web auth token.
    ///
    /// See Wire.md, "Web auth tokens".
    package static let webAuthToken: HTTPField.Name = {
        guard let name = HTTPField.Name("X-Apple-CloudKit-Web-Auth-Token") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()
}

/// Percent-decoding for credentials: `+` stays `+`.
///
/// See Wire.md, "API tokens".
enum PercentCoding {
    /// Returns `nil` for an invalid escape or invalid UTF-8.
    static func decode(_ text: String) -> String? {
        guard hasEscape(text) else { return text }
        var output: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            guard byte == UInt8(ascii: "%") else {
                output.append(byte)
                continue
            }
            guard let high = bytes.next().flatMap(hexValue), let low = bytes.next().flatMap(hexValue) else {
                return nil
            }
            output.append(high << 4 | low)
        }
        return String(validating: output, as: UTF8.self)
    }

    /// Encodes only what `decode` would change, so that a credential from JSON or a header equals the same one from a
    /// query.
    static func encode(_ text: String) -> String {
        hasEscape(text)
            ? text.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25") : text
    }

    private static func hasEscape(_ text: String) -> Bool {
        // Searches contiguous storage; `String.UTF8View` takes ten times as long.
        text.utf8.withContiguousStorageIfAvailable { $0.contains(UInt8(ascii: "%")) }
            ?? text.utf8.contains(UInt8(ascii: "%"))
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
