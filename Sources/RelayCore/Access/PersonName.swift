/// A person's name in the components of the wire format.
///
/// See Wire.md, "Users".
package struct PersonName: Hashable, Sendable {
    package var prefix: String?
    package var given: String?
    package var middle: String?
    package var family: String?
    package var suffix: String?
    package var nickname: String?

    package init(given: String? = nil, family: String? = nil) {
        self.given = given
        self.family = family
    }

    package var isEmpty: Bool { self == PersonName() }

    /// The maximum length of a component, in UTF-8 bytes.
    package static let longestPart = 128

    /// Returns a component as it is stored: trimmed, without control characters, truncated to `longestPart`; `nil` if
    /// empty.
    package static func part(_ text: String) -> String? {
        var kept = String.UnicodeScalarView()
        var bytes = 0
        for scalar in text.unicodeScalars where scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value) {
            if kept.isEmpty, scalar == " " { continue }
            bytes += UTF8.width(scalar)
            guard bytes <= longestPart else { break }
            kept.append(scalar)
        }
        while kept.last == " " { kept.removeLast() }
        return kept.isEmpty ? nil : String(kept)
    }
}
