import Foundation

/// Splits text into the words of tokenized search, ignoring case and diacritics.
///
/// A token is a run of letters, digits and marks; each Chinese or Japanese character is a token of its own, since those
/// scripts have no spaces between words.
package enum SearchTokens {
    /// The maximum number of distinct tokens of a field.
    package static let limit = 5_000
    /// The maximum bytes of a token; longer tokens are truncated.
    static let longest = 64

    /// Returns the distinct tokens of a text.
    package static func of(_ text: String) -> Set<String> {
        var tokens: Set<String> = []
        insert(text, into: &tokens)
        return tokens
    }

    /// Adds the tokens of a text until `tokens` has `limit` elements.
    package static func insert(_ text: String, into tokens: inout Set<String>) {
        var word: [UInt8] = []
        for byte in text.utf8 {
            // Most texts are ASCII, for which no Unicode tables are needed.
            guard byte < 0x80 else { return insertUnicode(text, into: &tokens) }
            if let folded = folded(byte) {
                if word.count < longest { word.append(folded) }
            } else if !word.isEmpty {
                tokens.insert(String(decoding: word, as: UTF8.self))
                guard tokens.count < limit else { return }
                word.removeAll(keepingCapacity: true)
            }
        }
        if !word.isEmpty { tokens.insert(String(decoding: word, as: UTF8.self)) }
    }

    private static func folded(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x61...0x7A, 0x30...0x39: byte
        case 0x41...0x5A: byte | 0x20
        default: nil
        }
    }

    private static func insertUnicode(_ text: String, into tokens: inout Set<String>) {
        var word = ""
        func end() {
            if !word.isEmpty { tokens.insert(word) }
            word = ""
        }
        for scalar in text.decomposedStringWithCompatibilityMapping.unicodeScalars {
            guard tokens.count < limit else { return }
            let properties = scalar.properties
            if properties.generalCategory == .nonspacingMark || properties.generalCategory == .enclosingMark {
                continue
            } else if isIdeograph(scalar) {
                end()
                tokens.insert(String(scalar))
            } else if properties.isAlphabetic || properties.numericType != nil {
                if word.utf8.count < longest { word += properties.lowercaseMapping }
            } else {
                end()
            }
        }
        end()
    }

    /// Returns whether a character is Han, Hiragana or Katakana.
    private static func isIdeograph(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isIdeographic || (0x3041...0x30FF).contains(scalar.value)
    }
}
