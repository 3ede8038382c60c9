package import HTTPTypes

/// Writes 16 random bytes as a version 4 UUID, lower-case.
///
/// RFC 9562.
enum UUIDText {
    private static let digits = Array("0123456789abcdef".utf8)

    static func make(_ bytes: [UInt8]) -> String {
        String(unsafeUninitializedCapacity: 36) { text in
            var count = 0
            for (index, byte) in bytes.prefix(16).enumerated() {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[count] = UInt8(ascii: "-")
                    count += 1
                }
                var byte = byte
                if index == 6 { byte = byte & 0x0F | 0x40 }
                if index == 8 { byte = byte & 0x3F | 0x80 }
                text[count] = digits[Int(byte >> 4)]
                text[count + 1] = digits[Int(byte & 15)]
                count += 2
            }
            return count
        }
    }
}

extension HTTPField.Name {
    static let respondingInstance: HTTPField.Name = {
        guard let name = HTTPField.Name("X-Responding-Instance") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()

    /// Names the request in our log, and in error bodies as `uuid`.
    package static let requestUUID: HTTPField.Name = {
        guard let name = HTTPField.Name("X-Apple-Request-UUID") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()
}
