/// The mark U+FEFF that some editors and shells put before the first character of a text.
///
/// It is no part of the text. RFC 8259, section 8.1, lets readers of JSON skip it.
package enum ByteOrderMark {
    private static let bytes: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// The bytes without a mark at their beginning.
    package static func dropped(from text: [UInt8]) -> [UInt8] {
        text.starts(with: bytes) ? Array(text.dropFirst(bytes.count)) : text
    }

    /// The text without a mark at its beginning.
    package static func dropped(from text: String) -> String {
        text.utf8.starts(with: bytes) ? String(decoding: text.utf8.dropFirst(bytes.count), as: UTF8.self) : text
    }
}
